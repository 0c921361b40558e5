import json

import torch
from helpers.datasets.image_folders import build, folder, make_tar, save
from helpers.engine.toy_run import write_config
from mmengine.config import Config

from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.saving.run_record import record_run


def record(work_dir, images, **values):
    """Record a start; return what the work dir has then, which is no other file."""
    cfg = {"work_dir": str(work_dir), "resume": False, "betas": (0.9, 0.99), **values}
    record_run(Config(cfg), images)
    (path,) = work_dir.iterdir()
    return json.loads(path.read_text())


def test_resumed_runs_are_added_and_changed_images_are_a_warning(tmp_path, warnings, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr("sys.argv", ["train.py", "a b.py"])
    images = build(folder(tmp_path / "images", 4))
    work_dir = tmp_path / "run"
    work_dir.mkdir()
    first = record(work_dir, images)
    assert first["config"] == {"work_dir": str(work_dir), "resume": False, "betas": [0.9, 0.99]}
    (start,) = first["starts"]
    assert start["command"] == "train.py 'a b.py'"
    assert start["resumed_from"] is None
    assert start["images"]["num_images"] == 4
    assert {"mmssprl", "torch", "numpy"} <= start["environment"]["packages"].keys()
    assert start["environment"]["variables"]["OMP_NUM_THREADS"] == "3"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    assert start["environment"]["device"] == device
    assert start["commit"]
    second = record(work_dir, images, resume=True, load_from="epoch_2.pth")
    assert second["config"] == first["config"]
    assert second["starts"][0] == start
    assert second["starts"][1]["resumed_from"] == "epoch_2.pth"
    assert second["starts"][1]["config"]["resume"] is True  # what differs from the first config
    assert len(record(work_dir, images)["starts"]) == 1  # a new run in the same folder
    assert warnings == []
    for name, num in (("02.png", 4), ("new.png", 5)):
        save(tmp_path / "images" / name, 9, (48, 48))
        record(work_dir, build(tmp_path / "images"), resume=True)
        assert f"the images have changed since this run started: 4 then, {num} now" in warnings[-1]
    assert len(warnings) == 2
    for damaged in ("", "{", "[]", "{}"):
        (work_dir / "run.json").write_text(damaged)
        (start,) = record(work_dir, object(), resume=True)["starts"]
        assert start["images"] is None  # a data set of another kind


def test_a_fingerprint_does_not_depend_on_the_place_of_the_files(tmp_path, monkeypatch):
    one, other = folder(tmp_path / "a", 5), folder(tmp_path / "b" / "c", 5)
    packed = make_tar(tmp_path / "images.tar", one, inside=True)
    whole = build(one).fingerprint()
    assert whole == build(other).fingerprint() == build(packed).fingerprint()
    (other / "00.png").rename(other / "0.png")
    renamed = build(other).fingerprint()
    assert renamed["names"] != whole["names"]
    assert renamed["sizes"] == whole["sizes"]
    images = build(one)
    (one / "01.png").unlink()
    assert images.fingerprint()["sizes"] != whole["sizes"]
    monkeypatch.setattr("mmssprl.datasets.unlabeled_images._MOST_SIZED", 3)
    sampled = images.fingerprint()  # of 00, 02 and 04
    assert (sampled["num_images"], sampled["num_sized"]) == (5, 3)


def test_a_run_uses_its_num_threads_and_writes_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "hush-4711")
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    cfg = prepare_train_config("toy.py", work_dir="run", cfg_options={"num_threads": 3})
    cfg.experiment_name = "threads"  # two runs of one second would share mmengine's name and log
    launch(cfg, "train")
    (start,) = json.loads((tmp_path / "run/run.json").read_text())["starts"]
    assert start["environment"]["threads"] == 3
    assert torch.get_num_threads() == 1  # as before
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {".log", ".json", ".pth", ".py"} <= {path.suffix for path in files}
    assert [path for path in files if b"hush-4711" in path.read_bytes()] == []
