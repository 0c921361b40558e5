import json

import pytest

from mmssprl.runs import work_dirs

COMPARE = {"data": None, "size": "scenes", "epochs": 24}
BENCHMARK = {"data": None, "weights": {"random": "r"}, "configs": {"linear-coco": "c1"}}


def claim(folder, settings):
    work_dirs.claim(folder, "marker.json", "an experiment", settings)


def marker(folder):
    return json.loads((folder / "marker.json").read_text())


def test_a_folder_of_the_user_is_left_as_it_was(tmp_path):
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(FileExistsError, match="its own folder, but .* --work-dir"):
        claim(tmp_path, COMPARE)
    assert [*tmp_path.iterdir()] == [tmp_path / "photo.jpg"]


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (COMPARE, {"epochs": 12}, "the same epochs, but .* with 24 and got 12"),
        (COMPARE, {"tune": True}, "the same tune, .* with None and got True"),
        (BENCHMARK, {"weights": {"random": "x"}}, "same weights.random, .* another --work-dir"),
        (BENCHMARK, {"configs": {"linear-coco": "c2"}}, "same configs.linear-coco, but"),
    ],
)
def test_trained_runs_are_resumed_with_the_same_settings_only(settings, change, message, tmp_path):
    claim(tmp_path, settings)
    (tmp_path / "runs/random").mkdir(parents=True)
    claim(tmp_path, settings)
    with pytest.raises(ValueError, match=message):
        claim(tmp_path, {**settings, **change})
    assert marker(tmp_path) == settings


def test_other_settings_are_taken_until_something_is_trained(tmp_path):
    folder = tmp_path / "a" / "b"
    for settings in (COMPARE, {**COMPARE, "data": "/other"}):
        claim(folder, settings)
        assert marker(folder) == settings


def test_a_damaged_marker_is_refused(tmp_path):
    claim(tmp_path, COMPARE)
    (tmp_path / "tuning" / "swav-8ep").mkdir(parents=True)
    (tmp_path / "marker.json").write_text('{"data": ')
    with pytest.raises(ValueError, match=r"marker\.json is damaged"):
        claim(tmp_path, COMPARE)


def test_a_work_dir_of_an_earlier_version_gets_new_digests(tmp_path):
    claim(tmp_path, COMPARE)
    (tmp_path / "runs/random").mkdir(parents=True)
    claim(tmp_path, {**COMPARE, "labels": {"train-a": "1" * 16}})
    with pytest.raises(ValueError, match="the same labels.train-a, but it has changed since"):
        claim(tmp_path, {**COMPARE, "labels": {"train-a": "2" * 16}})


def test_new_rows_join_the_earlier_ones(tmp_path):
    claim(tmp_path, BENCHMARK)
    (tmp_path / "runs/random").mkdir(parents=True)
    claim(tmp_path, {"weights": {"w": "1"}, "configs": {"detection": "d"}})
    assert marker(tmp_path) == {
        **BENCHMARK,
        "weights": {"random": "r", "w": "1"},
        "configs": {"linear-coco": "c1", "detection": "d"},
    }
