import json

import pytest
import torch
from helpers.datasets.image_folders import build, folder, make_tar, save
from helpers.engine.toy_run import write_config
from mmengine.config import Config

from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.saving.run_record import record_run


def record(work_dir, images, **values):
    """Record a start; return what the work dir has then, which is no other file."""
    cfg = {"work_dir": str(work_dir), "resume": False, "betas": (0.9, 0.99), **values}
    record_run(Config(cfg), images)
    (path,) = work_dir.iterdir()
    return json.loads(path.read_text())


@pytest.fixture
def images(tmp_path):
    return build(folder(tmp_path / "images", 4))


@pytest.fixture
def work_dir(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_the_first_start_has_the_config(images, work_dir):
    config = record(work_dir, images)["config"]
    assert config == {"work_dir": str(work_dir), "resume": False, "betas": [0.9, 0.99]}


def test_a_start_says_what_was_run_on_what(images, work_dir, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py", "a b.py"])
    (start,) = record(work_dir, images)["starts"]
    assert start["command"] == "train.py 'a b.py'"
    assert start["resumed_from"] is None
    assert start["processes"] == 1
    assert start["images"]["num_images"] == 4
    assert start["commit"]


def test_a_start_describes_its_environment(images, work_dir, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (start,) = record(work_dir, images)["starts"]
    found = start["environment"]
    assert {"mmssprl", "torch", "numpy"} <= found["packages"].keys()
    assert found["variables"]["OMP_NUM_THREADS"] == "3"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    assert found["device"] == device


def test_a_start_names_the_folder_of_its_log(tmp_path):
    # Two runs in one second would share a name and its log.
    cfg = prepare_train_config(
        write_config(tmp_path),
        work_dir=tmp_path / "run",
        cfg_options={"experiment_name": "named_by_its_start"},
    )
    launch(cfg, "train")
    (start,) = json.loads((tmp_path / "run/run.json").read_text())["starts"]
    assert (tmp_path / "run" / start["log"] / "vis_data/scalars.json").is_file()


def test_a_resumed_run_adds_its_start(images, work_dir):
    first = record(work_dir, images)
    second = record(work_dir, images, resume=True, load_from="epoch_2.pth")
    assert second["config"] == first["config"]
    assert second["starts"][0] == first["starts"][0]
    assert second["starts"][1]["resumed_from"] == "epoch_2.pth"
    assert second["starts"][1]["config"]["resume"] is True  # what differs from the first config


def test_a_new_run_in_the_same_folder_replaces_the_record(images, work_dir):
    record(work_dir, images)
    assert len(record(work_dir, images)["starts"]) == 1


def test_changed_images_are_a_warning(images, work_dir, warnings):
    record(work_dir, images)
    record(work_dir, images, resume=True)
    assert warnings == []
    for name, num in (("02.png", 4), ("new.png", 5)):
        save(work_dir.parent / "images" / name, 9, (48, 48))
        record(work_dir, build(work_dir.parent / "images"), resume=True)
        assert f"the images have changed since this run started: 4 then, {num} now" in warnings[-1]
    assert len(warnings) == 2


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}"])
def test_a_damaged_record_is_begun_again(work_dir, damaged):
    (work_dir / "run.json").write_text(damaged)
    (start,) = record(work_dir, object(), resume=True)["starts"]
    assert start["images"] is None  # a data set of another kind


class TestFingerprint:
    @pytest.fixture
    def root(self, tmp_path):
        return folder(tmp_path / "a", 5)

    def test_it_does_not_depend_on_the_place_of_the_files(self, root, tmp_path):
        other = folder(tmp_path / "b" / "c", 5)
        packed = make_tar(tmp_path / "images.tar", root, inside=True)
        whole = build(root).fingerprint()
        assert whole == build(other).fingerprint() == build(packed).fingerprint()

    def test_a_renamed_file_changes_the_names_alone(self, root):
        whole = build(root).fingerprint()
        (root / "00.png").rename(root / "0.png")
        renamed = build(root).fingerprint()
        assert renamed["names"] != whole["names"]
        assert renamed["sizes"] == whole["sizes"]

    def test_a_deleted_file_changes_the_sizes(self, root):
        images = build(root)
        whole = images.fingerprint()
        (root / "01.png").unlink()
        assert images.fingerprint()["sizes"] != whole["sizes"]

    def test_of_many_files_some_are_sized(self, root, monkeypatch):
        monkeypatch.setattr("mmssprl.datasets.unlabeled_images._MOST_SIZED", 3)
        sampled = build(root).fingerprint()  # of 00, 02 and 04
        assert (sampled["num_images"], sampled["num_sized"]) == (5, 3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The work dir of a training on three threads, with a secret in the environment."""
    folder = tmp_path_factory.mktemp("threads")
    config = write_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_API_KEY", "hush-4711")
        cfg = prepare_train_config(config, work_dir=folder / "run", cfg_options={"num_threads": 3})
        cfg.experiment_name = "threads"  # two runs of one second would share mmengine's name
        launch(cfg, "train")
    return folder / "run"


def test_a_run_uses_its_num_threads(trained):
    (start,) = json.loads((trained / "run.json").read_text())["starts"]
    assert start["environment"]["threads"] == 3
    assert torch.get_num_threads() == 1  # as before


@pytest.mark.parametrize("number", [-1, 0, 1.5, "two"])
def test_num_threads_that_is_no_number_of_threads_is_refused(tmp_path, number):
    cfg = prepare_train_config(
        write_config(tmp_path), work_dir=tmp_path / "run", cfg_options={"num_threads": number}
    )
    with pytest.raises(UserError, match=f"num_threads must be .* but got {number!r};"):
        launch(cfg, "train")
    assert not (tmp_path / "run").exists()


def test_a_run_writes_no_secret(trained):
    files = [path for path in trained.rglob("*") if path.is_file()]
    assert {".log", ".json", ".pth", ".py"} <= {path.suffix for path in files}
    assert [path for path in files if b"hush-4711" in path.read_bytes()] == []
