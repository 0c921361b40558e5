"""The options of `compare`, `demo` and `benchmark`."""

from collections.abc import Sequence
from typing import Literal

from ..console.options import Options, argument, option, optional, switch
from ..console.paths import check_data
from ..pretraining.methods import BY_KEY
from ..weights.sources import check_weights

ALL = "all"
"""Stands for all methods but those that download a teacher."""
Equal = Literal["epochs", "time", "flops"]
"""What is equal for all methods of a table."""
Size = Literal["scenes", "photos", "photos-gpu"]
BenchmarkSize = Literal["paper", "scenes", "coco128"]
"""The paper's own data, the generated scenes, or 100 + 100 photographs."""


class JobsOptions(Options):
    """The options of all commands with many runs."""

    jobs: int | None = option(
        "runs at a time, spread over the GPUs", chosen="one per GPU, else one per core", least=1
    )


class CompareOptions(JobsOptions):
    """The options of `compare`."""

    data: str | None = option(
        "labelled images, in any layout that finetune reads", chosen="scenes", check=check_data
    )
    methods: Sequence[str] = option(
        f"{', '.join(BY_KEY)}, {ALL} (without distill), or your own config file with the same "
        "backbone; METHOD:KEY=VALUE,... changes values of its model or config, and FILE.yaml has "
        "rows",
        default=("random", "swav", "swav-small", "ssprl"),
    )
    seeds: int = option("pre-trainings per method", default=3, least=1)
    equal: Sequence[Equal] = option("what is equal; one table for each", default=("epochs", "time"))
    epochs: int | None = option("length of SS-PRL's run", chosen="24 for scenes, else 20", least=1)
    size: Size | None = option(
        "size of the configs; photos-gpu is a whole ResNet-18 with views of 128 px, the others are "
        "for a CPU",
        chosen="photos with --data, else scenes",
    )
    reference: str = option("row that the others are compared with", default="ssprl")
    tune: bool = switch(
        "choose each learning rate of x 1/3, 1 and 3 first, by a fifth of the training images, "
        "which is held out"
    )
    work_dir: str | None = option("folder of the runs", chosen="work_dirs/compare_<size>")
    dry_run: bool = switch("list the runs with known paces; train and write nothing")


class DemoOptions(Options):
    """The options of `demo`."""

    work_dir: str = option("folder of the runs", default="work_dirs/demo")
    seeds: int = option("runs per method", default=3, least=1)


class BenchmarkOptions(JobsOptions):
    """The options of `benchmark`."""

    weights: Sequence[str] = argument(
        "backbone weights, training checkpoints, 'random', or 'supervised' (size paper: "
        "torchvision's ImageNet weights; else trained here on all labels)",
        check_weights,
    )
    table: Literal[1, 2, 3, 4] | None = optional("a table of the paper, 1 to 4")
    size: BenchmarkSize = option(
        "the paper's data, or for CPUs: generated scenes, 100 + 100 real images", default="paper"
    )
    protocols: Sequence[str] | None = option(
        "linear, semisup, detection, segmentation, or linear-coco, linear-voc, semisup-1, "
        "semisup-10, semisup-100",
        chosen="all of the size",
    )
    data: str | None = option(
        "folder with coco/ and VOCdevkit/, with coco/ and voc/ of `mmssprl scenes`, or with "
        "coco128/ and voc128/; or a data.yaml or .json of these",
        chosen="data; scenes are generated into the work dir",
    )
    seeds: int = option("trainings of each", default=1, least=1)
    work_dir: str | None = option("folder of the runs", chosen="work_dirs/benchmark_<size>")
    gpus: int = option(
        "GPUs of each detection and segmentation run of size paper", default=1, least=1
    )
    dry_run: bool = switch("show what is planned; write nothing")
    commands: bool = switch("write configs, print a shell command of each run")
