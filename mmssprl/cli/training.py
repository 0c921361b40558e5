"""Pre-train, train and test a config: `pretrain`, `train` and `test`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..config.shipped import check_config
from ..console.options import argument, option, optional, switch, typed_options
from ..console.paths import check_checkpoint_or_url, check_image_source
from ..console.quiet import say
from ..pretraining.options import PretrainOptions
from ..system.commands import command_line
from ..system.outputs import prepare_output
from ..system.stopping import is_first_process
from ..weights.sources import check_weights
from ._command import Command, Overwriting

if TYPE_CHECKING:
    from ..engine.launch import Launcher


class PretrainCommand(Command, PretrainOptions):
    """Pre-train on your own images.

    Choose a recipe for all images below a folder or in a tar file, print it, write it as a
    config into the work dir, and pre-train a backbone. A few timed steps forecast how long
    the run takes.

    examples:
      python -m mmssprl pretrain photos/ --backbone resnet18 --epochs 100
      python -m mmssprl pretrain photos/ --budget 2h --weights supervised --probe labelled/
      python -m mmssprl pretrain photos/ --work-dir work_dirs/photos --resume

    Ctrl-C, SIGTERM or a closed terminal stops the run after the current step: it saves,
    prints the command that resumes it, and exits with code 75. A second signal ends it at
    once.
    """

    images: str = argument(
        "folder of images or of .tar files, searched recursively, or one .tar file",
        check=check_image_source,
    )
    work_dir: str | None = option("folder of the run", chosen="work_dirs/pretrain_<IMAGES>")

    def run(self) -> int:
        """Pre-train, and name the commands that follow."""
        from ..config.hooks import hook_value
        from ..config.run_config import run_config
        from ..pretraining.start import run_pretraining
        from ..probing.probe_file import WORSE_THAN_RANDOM, propose
        from ..system.environment import freeze_imports
        from ..weights.description import channels_of, modules_of

        freeze_imports()
        asked = typed_options(PretrainOptions, self)
        weights = run_pretraining(self.images, self.work_dir, asked, say)
        if weights is None:
            print("dry run: nothing was written.")
            return 0
        cfg = run_config(weights.parent)  # also of a resumed run
        modules = modules_of(cfg.model.backbone)
        taken, is_worth = propose(weights, cfg)
        if taken is None:
            print(WORSE_THAN_RANDOM)
            print(f"next: {command_line('report', weights.parent, modules=modules)}")
            return 0

        data = str(self.probe or hook_value(cfg, "ProbeHook", "data") or "")
        steps = [["embed", taken, self.images, "features.npz"]]
        if data:
            steps = [["probe", taken, "random", data]]
            if not is_worth:
                print("no probe is clearly better than the start; train longer")
            elif channels_of(cfg) == 3:  # finetune reads RGB
                steps = [["finetune", taken, data, "--task", "classify"], *steps]
        for words in steps:
            print(f"next: {command_line(*words, modules=modules)}")
        if not data:
            print(f"next: {command_line('select', 'features.npz', modules=())}")
        return 0


class _OfConfig(Command):
    config: str = argument("config file; configs/... finds a shipped one anywhere", check_config)
    work_dir: str | None = option(
        "folder of the run", chosen="the config's, or work_dirs/<config name>"
    )
    cfg_options: Mapping[str, Any] | None = optional(
        "replace values of the config, for example test_dataloader.batch_size=1; unused keys are "
        "refused"
    )


class TrainCommand(_OfConfig):
    """Train a model from a config file.

    For pre-training, transfer and baselines; the same as tools/train.py. One process; for
    several use tools/dist_train.sh or tools/slurm_train.sh.

    examples:
      python -m mmssprl train configs/ssprl/ssprl_resnet18_scenes.py
      python -m mmssprl train CONFIG --cfg-options train_dataloader.batch_size=32
      python -m mmssprl train configs/baselines/CONFIG_coco.py --size photos --print-config
      python -m mmssprl train configs/benchmarks/detection/CONFIG --weights BACKBONE.pth
    """

    size: Literal["scenes", "photos", "photos-gpu"] | None = optional(
        "train a small form of a pre-training config: scenes and photos for a CPU, photos-gpu for "
        "one GPU"
    )
    print_config: bool = switch("print the config with all options and stop")
    weights: str | None = optional(
        "backbone weights to start from, for pre-training and configs/benchmarks: a file, random, "
        "or supervised (torchvision's, trained on ImageNet); a benchmark takes the backbone of the "
        "file's NAME.json if its own does not fit",
        check_weights,
    )
    resume: str | None = optional("resume from CHECKPOINT, or from the newest one in the work dir")
    overwrite: bool = switch(
        "start a new run in a used work dir; deletes its checkpoints, scores and report"
    )
    amp: bool = switch("mixed precision, in bfloat16 unless optim_wrapper.dtype says otherwise")
    compile: bool = switch(
        "pre-training: run the backbone, and on a GPU the augmentation, through torch.compile; the "
        "first steps take minutes"
    )
    keywords = {"resume": {"nargs": "?", "const": "auto", "metavar": "CHECKPOINT"}}

    def run(self) -> None:
        """Train the config."""
        train(self, launcher="none")


def train(asked: TrainCommand, launcher: "Launcher") -> None:
    """Train a config, or print it."""
    from ..engine.config_options import train_config_text
    from ..engine.launch import launch, prepare_train_config
    from ..models import is_pretraining
    from ..reporting import report_run
    from ..saving.run_files import finished_line, finished_weights
    from ..system.processes import command_of_process, require_single_process, to_resume

    if launcher == "none":
        require_single_process("train")
    if asked.print_config:
        text = train_config_text(
            asked.config,
            size=asked.size,
            amp=asked.amp,
            compile=asked.compile,
            cfg_options=asked.cfg_options,
        )
        print(text)
        return

    cfg = prepare_train_config(
        asked.config,
        size=asked.size,
        work_dir=asked.work_dir,
        weights=asked.weights,
        resume=asked.resume,
        overwrite=asked.overwrite,
        amp=asked.amp,
        compile=asked.compile,
        cfg_options=asked.cfg_options,
        launcher=launcher,
    )
    weights = finished_weights(cfg)
    if weights is None:
        resume_by = to_resume(command_of_process())
        launch(cfg, "train", overwrite=asked.overwrite, resume_by=resume_by)
        if is_pretraining(cfg) and is_first_process():
            report_run(Path(cfg.work_dir), say)
    elif is_first_process():
        print(finished_line(cfg, weights))


class TestCommand(_OfConfig, Overwriting):
    """Test a checkpoint with the test set and metrics of a config file.

    The same as tools/test.py. One process; for several use tools/dist_test.sh or
    tools/slurm_test.sh.

    examples:
      python -m mmssprl test CONFIG work_dirs/a/epoch_100.pth
    """

    checkpoint: str = argument(
        "weights to test: a file, a URL, or the folder of a run for its newest ones",
        check=check_checkpoint_or_url,
    )
    out: str | None = optional("also write the metrics to this .json file")

    def run(self) -> None:
        """Test the checkpoint."""
        test(self, launcher="none")


def test(asked: TestCommand, launcher: "Launcher") -> None:
    """Test a checkpoint."""
    from ..system.processes import require_single_process

    if launcher == "none":
        require_single_process("test")
    if asked.out:
        prepare_output(asked.out, ".json", overwrite=asked.overwrite)
    from ..engine.launch import launch, prepare_test_config

    cfg = prepare_test_config(
        asked.config,
        asked.checkpoint,
        work_dir=asked.work_dir,
        cfg_options=asked.cfg_options,
        launcher=launcher,
    )
    launch(cfg, "test", out=asked.out)
