import json

import pytest

from mmssprl import work_dirs

COMPARE = {"data": None, "size": "scenes", "epochs": 24}
BENCHMARK = {
    "size": "scenes",
    "data": None,
    "weights": {"random": "r"},
    "configs": {"linear-coco": "c1"},
}


def claim(folder, settings):
    work_dirs.claim(folder, "marker.json", "an experiment", settings)


def content(folder):
    """Every file below a folder with what is in it."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def marker(folder):
    [path] = folder.glob("*.json")
    return json.loads(path.read_text())


def begun(folder, settings):
    claim(folder, settings)
    for name in ("runs/random/epoch_1.pth", "scenes/coco/a.jpg", "table.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_new_folder_is_taken_and_one_of_the_user_left_as_it_was(tmp_path):
    claim(tmp_path / "a" / "b", COMPARE)
    assert marker(tmp_path / "a" / "b") == COMPARE
    photo = tmp_path / "mine" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="its own folder, but .* --work-dir"):
        claim(photo.parent, COMPARE)
    assert content(photo.parent) == {"photo.jpg": b"mine"}


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (COMPARE, {"epochs": 12}, "the same epochs, but .* with 24 and got 12"),
        (COMPARE, {"tune": True}, "the same tune, .* with None and got True"),
        (BENCHMARK, {"data": "/other"}, "the same data, .* with None and got /other"),
        (BENCHMARK, {"weights": {"random": "x"}}, "same weights.random, .* another --work-dir"),
        (BENCHMARK, {"configs": {"linear-coco": "c2"}}, "same configs.linear-coco, but"),
    ],
)
def test_what_was_trained_goes_on_with_the_same_settings_alone(settings, change, message, tmp_path):
    folder = begun(tmp_path / "work", settings)
    before = content(folder)
    claim(folder, settings)
    with pytest.raises(ValueError, match=message):
        claim(folder, {**settings, **change})
    assert content(folder) == before


def test_other_settings_are_taken_until_something_is_trained(tmp_path):
    claim(tmp_path, COMPARE)
    other = {**COMPARE, "data": "/other"}
    claim(tmp_path, other)
    assert marker(tmp_path) == other
    (tmp_path / "tuning" / "swav-8ep").mkdir(parents=True)
    [path] = tmp_path.glob("*.json")
    path.write_text('{"data": ')
    with pytest.raises(ValueError, match=f"{path.name} is damaged"):
        claim(tmp_path, COMPARE)


def test_rows_and_protocols_may_be_added_and_none_is_forgotten(tmp_path):
    folder = begun(tmp_path / "work", BENCHMARK)
    claim(folder, {**BENCHMARK, "weights": {"w": "1"}, "configs": {"detection": "d"}})
    assert marker(folder) == {
        **BENCHMARK,
        "weights": {"random": "r", "w": "1"},
        "configs": {"linear-coco": "c1", "detection": "d"},
    }
