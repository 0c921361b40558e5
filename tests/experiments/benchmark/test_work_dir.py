import hashlib
import json

import pytest

from mmssprl.experiments.benchmark.work_dir import claim, digest, start_anew

SETTINGS = {"size": "scenes", "data": None}


CONFIGS = {"linear-coco": "c1"}


def take(folder, weights=None, configs=None, *, resume=False, overwrite=False, **settings):
    weights = {"random": "random"} if weights is None else weights
    digests = {
        "weights": {name: digest(name, start) for name, start in weights.items()},
        "configs": CONFIGS if configs is None else configs,
    }
    all_settings = {**SETTINGS, **settings}
    claim(folder, all_settings, digests, weights.values(), resume=resume, overwrite=overwrite)


def content(folder):
    """Every file below a folder with what is in it."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def marker(folder):
    return json.loads((folder / "benchmark.json").read_text())


@pytest.fixture
def used(tmp_path):
    """A work dir after a call: configs, runs, scenes, a table."""
    folder = tmp_path / "work"
    take(folder)
    for name in ("configs/a.py", "runs/random/epoch_1.pth", "scenes/coco/a.jpg", "table.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
def test_a_new_or_empty_folder_is_taken(exists, how, tmp_path):
    folder = tmp_path / "a" / "b"
    if exists:
        folder.mkdir(parents=True)
    take(folder, data="/data", **how)
    assert marker(folder) == {
        "size": "scenes",
        "data": "/data",
        "weights": {"random": digest("random")},
        "configs": CONFIGS,
    }


def test_digests_are_the_sha256_of_the_description_and_the_file(tmp_path):
    file = tmp_path / "w.pth"
    file.write_bytes(bytes(3 << 20))  # more than one block
    description = {"depth": 50, "type": "ResNet"}
    text = b'{"depth": 50, "type": "ResNet"}'
    assert digest(description, str(file)) == hashlib.sha256(text + bytes(3 << 20)).hexdigest()
    assert digest(dict(reversed(description.items()))) == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("names", [["notes.txt"], ["benchmark.json", "runs/1.txt", "configs/1.py"]])
@pytest.mark.parametrize(
    "text",
    [
        '{"date": "2024"}',
        # A benchmark of a version that called the size a profile.
        '{"profile": "scenes", "data": null, "weights": {}, "configs": {}}',
    ],
)
def test_a_foreign_folder_is_refused_and_untouched(text, names, how, tmp_path):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = content(tmp_path)
    with pytest.raises(
        FileExistsError,
        match=rf"{tmp_path} holds (other files|a benchmark of another version).* --work-dir\.",
    ):
        take(tmp_path, **how)
    assert content(tmp_path) == before


def test_own_runs_are_not_touched_without_being_told(used):
    before = content(used)
    with pytest.raises(FileExistsError, match=r"holds a benchmark; go on with it by --resume, "):
        take(used)
    assert content(used) == before


def test_a_call_that_ended_before_its_first_run_leaves_the_folder_free(tmp_path):
    take(tmp_path, data="/wrong")
    (tmp_path / "configs").mkdir()
    take(tmp_path, data="/right")
    assert marker(tmp_path)["data"] == "/right"


def test_resume_keeps_everything(used):
    before = content(used)
    take(used, resume=True)
    assert content(used) == before


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"data": "/other"}, "the same data, .* begun with None and got /other; "),
        ({"size": "paper"}, "the same size, .* begun with scenes and got paper; give"),
    ],
)
def test_resume_with_other_settings(setting, message, used):
    before = content(used)
    with pytest.raises(ValueError, match=message):
        take(used, resume=True, **setting)
    assert content(used) == before


def test_resume_with_another_file_of_the_same_name(tmp_path):
    file, folder = tmp_path / "w.pth", tmp_path / "work"
    file.write_bytes(b"one")
    take(folder, {"w": str(file)})
    (folder / "runs").mkdir()
    take(folder, {"w": str(file)}, resume=True)
    file.write_bytes(b"two")
    before = content(folder)
    message = (
        "weights that the runs began with, but w is another file or has another backbone now; "
        r"rename it, or start anew by --overwrite\."
    )
    with pytest.raises(ValueError, match=message):
        take(folder, {"w": str(file)}, resume=True)
    assert content(folder) == before
    # The same file at another place is the same row.
    moved = tmp_path / "elsewhere.pth"
    moved.write_bytes(b"one")
    take(folder, {"w": str(moved)}, resume=True)


def test_rows_may_be_added_and_none_is_forgotten(used, tmp_path):
    file = tmp_path / "w.pth"
    file.write_bytes(b"one")
    take(used, {"w": str(file)}, resume=True)
    assert marker(used)["weights"] == {"random": digest("random"), "w": digest("w", str(file))}
    file.write_bytes(b"two")
    with pytest.raises(ValueError, match="but w is another file or"):
        take(used, {"w": str(file)}, resume=True)


def test_resume_with_another_config_of_a_protocol(used):
    take(used, configs={"detection": "d1"}, resume=True)
    assert marker(used)["configs"] == {"linear-coco": "c1", "detection": "d1"}
    with pytest.raises(ValueError, match="but the config of detection has changed; give another"):
        take(used, configs={"detection": "d2"}, resume=True)


def test_resume_with_another_name_for_known_weights(used, tmp_path):
    digests = {"weights": {"w": "1"}, "configs": CONFIGS}
    claim(used, SETTINGS, digests, ["w.pth"], resume=True, overwrite=False)
    digests["weights"] = {"a_w": "1", "b_w": "2"}
    with pytest.raises(ValueError, match=r"knows the weights a_w as w, .*; rename the other file"):
        claim(used, SETTINGS, digests, ["a/w.pth", "b/w.pth"], resume=True, overwrite=False)


def test_overwrite_does_not_delete_the_weights_it_starts_from(used, monkeypatch):
    before = content(used)
    monkeypatch.chdir(used)
    message = r"--overwrite deletes the runs in .*, but runs/random/epoch_1.pth is of one of them; "
    with pytest.raises(ValueError, match=message):
        take(used, {"random": "random", "w": "runs/random/epoch_1.pth"}, overwrite=True)
    assert content(used) == before


def test_overwrite_changes_nothing_before_the_plan_is_made(used):
    before = content(used)
    take(used, {"other": "random"}, overwrite=True, data="/other")
    assert content(used) == before


def test_starting_anew_deletes_the_runs_and_nothing_else(used):
    digests = {"weights": {"other": "1"}, "configs": {}}
    start_anew(used, {**SETTINGS, "data": "/other"}, digests)
    left = {"benchmark.json", "configs/a.py", "scenes/coco/a.jpg", "table.md"}
    assert set(content(used)) == left
    assert not (used / "runs").exists()
    assert marker(used) == {**SETTINGS, "data": "/other", **digests}
