import pytest
from helpers.datasets.photo_folders import write_photos
from helpers.pretraining.paces import stub_pace

from mmssprl.cli import main
from mmssprl.errors import UserValueError, called
from mmssprl.pretraining import start


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture
def started(monkeypatch, on_cpu):
    """The work dirs that trainings are started in."""
    folders = []
    monkeypatch.setattr(
        start, "train_config", lambda config, folder, **_: folders.append(str(folder))
    )
    stub_pace(monkeypatch)
    return folders


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--image-px 100", "image_px multiple 100 96"),
        ("--lr 0", "lr above 0.0"),
        ("--num-workers -1", "error: num_workers must be at least 0, but got -1"),
        ("--cfg-options save_every=soon", "save_every 30m 'soon'"),
        ("--gpus 0", "gpus 0 CUDA_VISIBLE_DEVICES="),
        ("--cfg-options max_epochs=3", "max_epochs train_cfg.max_epochs"),
        ("--cfg-options train_dataloader.dataset.pipeline.0.layout.image_px=64", "model.layout"),
        ("--backbone timm/resnet18x", "'resnet18x' resnet18?"),
        ("--backbone swin-tiny --weights supervised", "swin-tiny weights backbone"),
        ("--budget soon", "budget 90m 'soon'"),
        ("--method mocov2 --accumulate 2", "accumulate mocov2 batch_size"),
    ],
)
def test_options_that_fit_no_training(options, words, photos, tmp_path, started, capsys):
    given = options.split()
    given += [] if "--backbone" in given else ["--backbone", "resnet18"]
    assert main(["pretrain", str(photos), "--work-dir", str(tmp_path / "run"), *given]) == 2
    out, printed = capsys.readouterr()
    assert all(word in printed for word in words.split())
    assert (printed.count("\n"), out) == (1, "")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_refuses_what_its_config_decides(photos, tmp_path, started, capsys):
    words = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    main([*words, "--backbone", "resnet18"])
    options = "--lr 1 --image-px 32 --num-workers 1 --gpus 1 --weights w --cfg-options a=1"
    options += " --budget 1h --dry-run --probe labelled"
    capsys.readouterr()
    assert main([*words, "--resume", *options.split()]) == 2
    names = "budget, image_px, lr, weights, gpus, num_workers, probe"
    assert f"{names}, cfg_options, dry_run out" in capsys.readouterr().err


def test_a_folder_without_images(tmp_path, capsys):
    for name in ("empty", "zips"):
        (tmp_path / name).mkdir()
    (tmp_path / "zips" / "a.zip").touch()
    write_photos(tmp_path / "photos", 1)
    for name, reason in (
        ("gone", "there is no "),
        ("empty", "none among 0 files"),
        ("zips", "none among 1 file"),
        ("photos/0.png", "is one image; give its folder"),
    ):
        assert main(["pretrain", str(tmp_path / name)]) == 2
        printed = capsys.readouterr().err
        assert "error: images " in printed
        assert reason in printed


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserValueError("data_root/data_prefix: must hold images"), "images must hold images"),
        (UserValueError("epochs must be 1"), "epochs must be 1"),
        (ValueError("data_root/data_prefix"), "data_root/data_prefix"),
    ],
)
def test_only_errors_about_the_field_are_changed(error, message):
    with pytest.raises(ValueError, match=f"^{message}$"), called("images"):
        raise error


def test_the_default_work_dir_is_named_after_the_images(started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for owner in ("ann", "bob"):
        write_photos(tmp_path / owner / "photos", 8)
    command = ["pretrain", "--backbone", "resnet18", "--epochs", "1"]
    folder = "work_dirs/pretrain_photos"
    assert main(["pretrain", "ann/photos", "--resume"]) == 2
    assert f"{folder}, but found 0" in capsys.readouterr().err
    assert main([*command, "ann/photos"]) == 0
    assert main(["pretrain", "ann/photos/", "--resume"]) == 0
    assert started == [folder, folder]
    assert main([*command, "bob/photos"]) == 2
    assert f"but {folder} holds files" in capsys.readouterr().err
    (tmp_path / folder / "swav-small_resnet18.py").write_text("data_root = ")
    assert main(["pretrain", "ann/photos", "--resume"]) == 2
    assert "swav-small_resnet18.py: line 1 of it or" in capsys.readouterr().err
