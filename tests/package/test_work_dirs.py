import json

import pytest

from mmssprl import work_dirs

COMPARE = {"data": None, "size": "scenes", "epochs": 24}
BENCHMARK = {"data": None, "weights": {"random": "r"}, "configs": {"linear-coco": "c1"}}


def claim(folder, settings):
    work_dirs.claim(folder, "marker.json", "an experiment", settings)


def marker(folder):
    return json.loads((folder / "marker.json").read_text())


def test_a_new_folder_is_taken_and_one_of_the_user_left_as_it_was(tmp_path):
    claim(tmp_path / "a" / "b", COMPARE)
    assert marker(tmp_path / "a" / "b") == COMPARE
    photo = tmp_path / "mine" / "photo.jpg"
    photo.parent.mkdir()
    photo.touch()
    with pytest.raises(FileExistsError, match="its own folder, but .* --work-dir"):
        claim(photo.parent, COMPARE)
    assert [*photo.parent.iterdir()] == [photo]


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (COMPARE, {"epochs": 12}, "the same epochs, but .* with 24 and got 12"),
        (COMPARE, {"tune": True}, "the same tune, .* with None and got True"),
        (BENCHMARK, {"weights": {"random": "x"}}, "same weights.random, .* another --work-dir"),
        (BENCHMARK, {"configs": {"linear-coco": "c2"}}, "same configs.linear-coco, but"),
    ],
)
def test_what_was_trained_goes_on_with_the_same_settings_alone(settings, change, message, tmp_path):
    claim(tmp_path, settings)
    (tmp_path / "runs/random").mkdir(parents=True)
    claim(tmp_path, settings)
    with pytest.raises(ValueError, match=message):
        claim(tmp_path, {**settings, **change})
    assert marker(tmp_path) == settings


def test_other_settings_are_taken_until_something_is_trained(tmp_path):
    claim(tmp_path, COMPARE)
    other = {**COMPARE, "data": "/other"}
    claim(tmp_path, other)
    assert marker(tmp_path) == other
    (tmp_path / "tuning" / "swav-8ep").mkdir(parents=True)
    (tmp_path / "marker.json").write_text('{"data": ')
    with pytest.raises(ValueError, match=r"marker\.json is damaged"):
        claim(tmp_path, COMPARE)


def test_rows_and_protocols_may_be_added_and_none_is_forgotten(tmp_path):
    claim(tmp_path, BENCHMARK)
    (tmp_path / "runs/random").mkdir(parents=True)
    claim(tmp_path, {"weights": {"w": "1"}, "configs": {"detection": "d"}})
    assert marker(tmp_path) == {
        **BENCHMARK,
        "weights": {"random": "r", "w": "1"},
        "configs": {"linear-coco": "c1", "detection": "d"},
    }
