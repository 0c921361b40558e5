"""`pretrain --method`: configs that train, and what a method refuses."""

import pytest
from mmengine.config import Config
from paces import stub_pace
from PIL import Image

from mmssprl.cli import main
from mmssprl.config.pretrain_checks import check_pretraining
from mmssprl.pretraining import start
from mmssprl.pretraining.methods import PRETRAINED
from mmssprl.registry import MODELS
from mmssprl.timing.pace import _measure


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for i in range(40):
        Image.new("RGB", (64, 48), (i, 2 * i, 3 * i)).save(folder / f"{i}.png")
    return folder


@pytest.fixture
def trainings(monkeypatch, on_cpu):
    """The trainings that were asked for and are not started."""
    started = []
    monkeypatch.setattr(start, "train", lambda *args, **options: started.append((*args, options)))
    stub_pace(monkeypatch)
    return started


@pytest.mark.parametrize("name", PRETRAINED)
def test_each_method_gets_a_config_that_its_model_takes(name, photos, tmp_path, trainings, capsys):
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path), "--method", name]
    assert main([*arguments, "--backbone", "resnet18", "--batch-size", "8", "--epochs", "20"]) == 0
    assert capsys.readouterr().out.startswith(PRETRAINED[name].title)
    config = tmp_path / f"{name}_resnet18.py"
    options = {"num_gpus": 0, "resume": None, "verbose": False, "trackers": []}
    options["go_on"] = ["python", "-m", "mmssprl", *arguments[:4]]
    assert trainings == [(config, tmp_path, options)]
    cfg = Config.fromfile(config)
    check_pretraining(cfg)
    model = MODELS.build(cfg.model)
    model.check_training(40, cfg.train_dataloader.batch_size)
    assert cfg.train_dataloader.dataset.pipeline[0].layout == cfg.model.layout
    assert sum(scheduler.get("end", 0) for scheduler in cfg.param_scheduler) in (0, 1)
    assert cfg.param_scheduler[-1].T_max + cfg.param_scheduler[-1].get("begin", 0) == 20
    assert not {"warmup_epochs", "max_epochs", "base_lr", "num_gpus"} & cfg.keys()


def test_a_run_of_a_method_is_found_again(photos, tmp_path, trainings):
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path)]
    assert main([*arguments, "--method", "byol"]) == 0
    assert main([*arguments, "--resume"]) == 0
    assert [(config.name, options["resume"]) for config, _, options in trainings] == [
        ("byol_resnet50.py", None),
        ("byol_resnet50.py", "auto"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "moco"], "but got 'moco'; did you mean mocov2?"),
        (["--method", "byol", "--variant", "paper"], "'paper' for byol; leave it out."),
        (
            ["--method", "mocov2", "--accumulate", "2"],
            "accumulate must be 1 for mocov2, which needs its whole batch at once, but got 2",
        ),
        (["--method", "densecl", "--batch-size", "40"], "densecl needs a queue of more keys"),
    ],
)
def test_what_a_method_refuses_is_one_line(options, message, photos, tmp_path, trainings, capsys):
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run"), *options]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_help_names_every_method(capsys):
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert PRETRAINED.keys() <= set(words)


def test_steps_are_timed_with_batches_that_the_groups_divide(photos, tmp_path, trainings):
    """Four groups of BatchNorm take no step of two images, as other methods do."""
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path), "--method", "mocov2"]
    assert main([*arguments, "--backbone", "resnet18", "--batch-size", "9"]) == 0
    config = tmp_path / "mocov2_resnet18.py"
    assert Config.fromfile(config).model.bn_groups == 3
    pace = _measure(str(config), amp=False, num_devices=1, threads=1, load=0.0, index={})
    assert pace.batch_size == 9
    assert pace.num_timed % 3 == 0
    # The network, its average and the queue, and AdamW's two averages of what is trained.
    assert pace.checkpoint_bytes > 3.9 * pace.backbone_bytes
