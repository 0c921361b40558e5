import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping

import pytest
from mmengine.config import Config
from tiny_benchmark import NARROW, RESNET50, protocol, save_backbone, script_run, write_paper_data

from mmssprl.config.found_config import read_found
from mmssprl.config.shipped import shipped
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark import plan as plan_module
from mmssprl.experiments.benchmark.plan import make_plan
from mmssprl.experiments.benchmark.protocols import PROTOCOLS
from mmssprl.experiments.benchmark.results import TransferResult
from mmssprl.experiments.benchmark.rows import Weights

RANDOM = Weights("random", "random", None)
SUPERVISED = Weights("supervised", "supervised", None)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=2, num_val=1, size_px=64, progress=False)


@pytest.fixture
def paper(tmp_path):
    return write_paper_data(tmp_path / "paper")


def plan_of(tmp_path, rows, names, data, *, size="scenes", num_seeds=1, num_gpus=1):
    return make_plan(
        rows,
        [protocol(name, size) for name in names],
        size=size,
        data=data,
        work_dir=tmp_path / "work",
        num_seeds=num_seeds,
        num_gpus=num_gpus,
    )


def strings(node):
    """All strings in a config, at any depth."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from strings(value)


def loaded_parts(cfg):
    """What a training and a test read."""
    keys = ("train_dataloader", "test_dataloader", "test_evaluator", "val_dataloader")
    return [cfg.get(key) for key in keys]


class TestWrittenConfigs:
    @pytest.mark.full
    @pytest.mark.parametrize(
        ("name", "part"),
        [
            ("linear-coco", "coco"),
            ("semisup-10", "coco"),
            ("detection", "coco"),
            ("segmentation", "voc/VOC2007"),
        ],
    )
    def test_hold_data_weights_and_seed(self, name, part, scenes, tmp_path, monkeypatch):
        file = save_backbone(tmp_path / "narrow.pth")
        monkeypatch.chdir(scenes.parent)
        row = Weights("narrow", str(file), NARROW)
        plan = plan_of(tmp_path, [RANDOM, row], [name], type(scenes)("scenes"), num_seeds=2)
        assert plan.skipped == ()
        assert all(run.needs == () for run in plan.runs)
        runs = [(run.weights, run.seed) for run in plan.runs]
        assert runs == [("random", 0), ("narrow", 0), ("random", 1), ("narrow", 1)]
        assert len({run.config for run in plan.runs}) == len({run.folder for run in plan.runs}) == 4
        for run in plan.runs:
            cfg = Config.fromfile(run.config)
            assert read_found(run.config).to_dict() == cfg.to_dict()
            assert run.config.is_relative_to(tmp_path / "work" / "configs")
            assert run.folder == tmp_path / "work" / "runs" / run.weights / name / f"seed{run.seed}"
            assert cfg.randomness.seed == run.seed
            assert cfg.weights == {"random": "random", "narrow": str(file)}[run.weights]
            assert cfg.model.backbone.base_channels == {"random": 16, "narrow": 8}[run.weights]
            # The data may lie relative to where the command runs: they become absolute.
            for split in ("train", "test"):
                root = cfg[f"{split}_dataloader"].dataset.data_root
                assert root == str(scenes / part)
                assert os.path.isdir(root)
            if name == "detection":
                expected = scenes / "coco/annotations/instances_val2014.json"
                assert cfg.test_evaluator.ann_file == str(expected)
            assert not [text for text in strings(loaded_parts(cfg)) if text.startswith("data/")]
            assert (cfg.val_cfg, cfg.val_dataloader, cfg.val_evaluator) == (None, None, None)
            assert cfg.test_cfg is not None

    @pytest.mark.full
    def test_are_the_shipped_ones_in_all_else(self, paper, tmp_path):
        names = [protocol.name for protocol in PROTOCOLS["paper"]]
        runs = plan_of(tmp_path, [RANDOM], names, paper, size="paper").runs
        assert len(runs) == 7
        for run in runs:
            ours = Config.fromfile(run.config).to_dict()
            shipped_one = Config.fromfile(shipped(run.protocol.config)).to_dict()
            assert list(ours) == list(shipped_one)
            changed = {key for key in ours if ours[key] != shipped_one[key]}
            assert changed == {
                *("train_dataloader", "test_dataloader"),
                *("val_dataloader", "val_cfg", "val_evaluator"),
                *(["test_evaluator"] if run.protocol.name == "detection" else []),
            }

    @pytest.mark.parametrize("name", ["detection", "segmentation"])
    def test_images_that_cannot_be_shared(self, name, paper, tmp_path):
        message = rf"^--gpus must divide the 16 images of a step of {name}, but got 3\.$"
        with pytest.raises(ValueError, match=message):
            plan_of(tmp_path, [RANDOM], [name], paper, size="paper", num_gpus=3)
        plan = plan_of(tmp_path, [RANDOM], ["linear-voc"], paper, size="paper", num_gpus=3)
        assert len(plan.runs) == 1


class TestData:
    @pytest.mark.full
    def test_all_that_is_missing_is_told_at_once(self, tmp_path):
        data = tmp_path / "empty"
        names = ["linear-coco", "linear-voc", "semisup-1", "segmentation"]
        with pytest.raises(FileNotFoundError) as caught:
            plan_of(tmp_path, [RANDOM], names, data, size="paper", num_seeds=2)
        lines = str(caught.value).splitlines()
        assert lines[0] == "the data of all protocols must be there, but some are not:"
        assert lines[-1] == "give their folder by --data, or choose other --protocols."
        problems, remedies = lines[1:-1:2], lines[2:-1:2]
        files = [
            "coco/annotations/instances_train2014.json",
            "VOCdevkit/VOC2007/ImageSets/Main/trainval.txt",
            "VOCdevkit/VOC2012/ImageSets/Segmentation/train_aug.txt",
        ]
        assert len(problems) == 3  # COCO is told once though two protocols and two seeds need it
        for problem, file in zip(problems, files, strict=True):
            assert f"there is no {data / file};" in problem
        assert [remedy.strip() for remedy in remedies] == [
            f"python -m mmssprl prepare coco {data}/coco",
            f"python -m mmssprl prepare voc07 {data}",
            f"python -m mmssprl prepare voc12aug {data}",
        ]

    def test_images_for_the_test_are_needed_too(self, paper, tmp_path):
        (paper / "VOCdevkit/VOC2007/ImageSets/Main/test.txt").unlink()
        (paper / "coco/val2014").rmdir()
        with pytest.raises(FileNotFoundError) as caught:
            plan_of(tmp_path, [RANDOM], ["linear-coco", "linear-voc"], paper, size="paper")
        message = str(caught.value)
        assert f"test_dataloader: data_prefix must be a folder, but there is no {paper}" in message
        assert "test_dataloader: split must name an image set, but there is no " in message

    def test_scenes_are_generated_without_data(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="leave --data out") as caught:
            plan_of(tmp_path, [RANDOM], ["linear-coco"], tmp_path / "none")
        assert f"python -m mmssprl scenes {tmp_path / 'none'}\n" in str(caught.value)


class TestWhatCannotRun:
    def test_a_missing_package_skips_its_protocols_only(self, scenes, tmp_path, monkeypatch):
        monkeypatch.setattr(plan_module, "missing_package", {"mmdet": "mmdet"}.get)
        plan = plan_of(tmp_path, [RANDOM], ["linear-coco", "detection"], scenes, num_seeds=2)
        reason = "needs mmdet; see requirements/transfer.txt"
        assert plan.skipped == tuple(
            TransferResult("detection", "random", seed, {}, 0.0, "skipped", reason)
            for seed in (0, 1)
        )
        assert [run.protocol.name for run in plan.runs] == ["linear-coco"] * 2

    @pytest.mark.full
    def test_backbones_that_a_protocol_cannot_take_are_skipped(self, scenes, tmp_path):
        swin = Weights("swin", "random", {"type": "SwinTransformer", "arch": "tiny"})
        plan = plan_of(tmp_path, [RANDOM, swin], ["linear-coco", "segmentation"], scenes)
        planned = [(run.weights, run.protocol.name) for run in plan.runs]
        assert planned == [
            ("random", "linear-coco"),
            ("swin", "linear-coco"),
            ("random", "segmentation"),
        ]
        (skipped,) = plan.skipped
        assert (skipped.weights, skipped.protocol) == ("swin", "segmentation")
        assert re.match("the configs of mmseg are for ResNets, .* SwinTransformer", skipped.reason)

    @pytest.mark.parametrize("backbone", [None, RESNET50], ids=["protocol's own", "ResNet-50"])
    def test_weights_that_do_not_fit(self, backbone, scenes, tmp_path):
        file = save_backbone(tmp_path / "narrow.pth")
        row = Weights("narrow", str(file), backbone)
        with pytest.raises(ValueError, match=f"every weight of {file} must fit the backbone of"):
            plan_of(tmp_path, [RANDOM, row], ["linear-coco"], scenes)
        assert not (tmp_path / "work" / "runs").exists()


class TestSupervised:
    def test_is_trained_here_from_random_weights(self, scenes, tmp_path):
        row = Weights("supervised", "supervised", NARROW)
        rows = [RANDOM, row]
        plan = plan_of(tmp_path, rows, ["linear-coco", "semisup-10"], scenes, num_seeds=2)
        needs = {run.needs for run in plan.runs if run.weights == "supervised"}
        ((pretraining,),) = needs
        assert all(run.needs == () for run in plan.runs if run.weights == "random")
        assert pretraining.kind == "semisup-100"
        assert plan.shell_lines() == [run.shell_line() for run in (pretraining, *plan.runs)]
        assert pretraining.folder == tmp_path / "work" / "runs" / "supervised_pretraining"
        ((*_, tool, config, option, folder, resume),) = pretraining.commands
        assert tool.endswith("tools/train.py")
        assert (option, folder, resume) == ("--work-dir", str(pretraining.folder), "--resume")
        cfg = Config.fromfile(config)
        assert (cfg.weights, cfg.randomness.seed) == ("random", 0)
        assert (cfg.model.frozen_backbone, cfg.model.backbone.base_channels) == (False, 8)
        assert cfg.train_dataloader.dataset.data_root == str(scenes / "coco")
        assert cfg.train_cfg.max_epochs == 20
        last = str(pretraining.folder / "epoch_20.pth")
        starts = {(r.weights, Config.fromfile(r.config).weights) for r in plan.runs}
        assert starts == {("random", "random"), ("supervised", last)}
        assert len(plan.runs) == 8

    def test_is_torchvisions_at_full_size(self, paper, tmp_path, monkeypatch):
        fetched = []
        fetch = "mmssprl.engine.initial_weights.supervised_state"
        monkeypatch.setattr(fetch, fetched.append)
        plan = plan_of(tmp_path, [SUPERVISED], ["linear-voc"], paper, size="paper")
        assert plan.runs[0].needs == ()
        assert fetched == [50]  # before the first run, which might have no network
        assert Config.fromfile(plan.runs[0].config).weights == "supervised"

    def test_torchvision_has_no_narrow_one(self, paper, tmp_path):
        row = Weights("supervised", "supervised", NARROW)
        with pytest.raises(ValueError, match="torchvision's, for a ResNet of standard width"):
            plan_of(tmp_path, [row], ["linear-voc"], paper, size="paper")

    def test_its_data_are_needed_even_if_no_protocol_reads_them(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"coco128/annotations/instances_train2014"):
            plan_of(tmp_path, [SUPERVISED], ["linear-voc"], tmp_path / "none", size="coco128")

    def test_nothing_is_trained_for_other_rows(self, scenes, tmp_path):
        (run,) = plan_of(tmp_path, [RANDOM], ["linear-coco"], scenes).runs
        assert run.needs == ()


class TestCommands:
    def test_training_then_test(self, scenes, tmp_path):
        (run,) = plan_of(tmp_path, [RANDOM], ["linear-coco"], scenes).runs
        train, test = run.commands
        config, folder = str(run.config), str(run.folder)
        assert train[0] == test[0] == sys.executable
        assert train[1].endswith("tools/train.py")
        assert os.path.isfile(train[1])
        assert train[2:] == (config, "--work-dir", folder, "--resume")
        assert test[1].endswith("tools/test.py")
        assert os.path.isfile(test[1])
        out = str(run.metrics_file)
        assert test[2:] == (config, folder, "--work-dir", folder, "--out", out, "--force")

    @pytest.mark.full
    def test_several_gpus_share_the_images_of_a_step(self, paper, tmp_path):
        names = ["linear-voc", "detection", "segmentation"]
        plan = plan_of(tmp_path, [RANDOM], names, paper, size="paper", num_gpus=2)
        launched = ("--standalone", "--nproc_per_node=2")
        for run, images in zip(plan.runs, (32, 8, 8), strict=True):
            assert Config.fromfile(run.config).train_dataloader.batch_size == images
            shared = run.protocol.name != "linear-voc"
            for command in run.commands:
                assert (command[2:4] == launched) == shared
                assert ("--launcher pytorch" in " ".join(command)) == shared
                assert command[1].endswith("tools/launch.py") == shared
                assert os.path.isfile(command[1])

    @pytest.mark.full
    def test_one_gpu_takes_them_all(self, paper, tmp_path):
        (run,) = plan_of(tmp_path, [RANDOM], ["segmentation"], paper, size="paper").runs
        assert Config.fromfile(run.config).train_dataloader.batch_size == 16
        assert not any("--launcher" in command for command in run.commands)

    def test_shell_line_is_a_line_for_a_shell(self, tmp_path):
        folder = tmp_path / "a folder's $HOME"
        run = script_run(folder, "print('one  \"two\"; $PATH & more')", "print('second')")
        line = run.shell_line()
        words = shlex.split(line)
        middle = words.index("&&")
        assert (tuple(words[:middle]), tuple(words[middle + 1 :])) == run.commands
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert done.stdout == 'one  "two"; $PATH & more\nsecond\n'

    def test_shell_line_stops_at_a_failed_training(self, tmp_path):
        line = script_run(tmp_path, "raise SystemExit(3)", "print('second')").shell_line()
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (3, "")
