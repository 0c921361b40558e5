import json

import pytest

from mmssprl.experiments.compare.work_dir import MARKER, claim

SETTINGS = {"data": None, "size": "scenes", "epochs": 24}


def test_a_folder_of_the_user_is_refused_and_left_as_it_was(tmp_path):
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="needs a folder of its own, but .* other files"):
        claim(tmp_path, SETTINGS)
    assert list(tmp_path.iterdir()) == [photo]


def test_its_own_folder_is_taken_again_with_the_same_settings_alone(tmp_path):
    folder = tmp_path / "new" / "compare"
    claim(folder, SETTINGS)
    (folder / "table.md").write_text("")
    (folder / "runs" / "random-0ep").mkdir(parents=True)
    claim(folder, SETTINGS)
    before = (folder / MARKER).read_text()
    with pytest.raises(ValueError, match="the same epochs, but .* begun with 24 and got 12"):
        claim(folder, {**SETTINGS, "epochs": 12})
    with pytest.raises(ValueError, match="the same tune, .* with None and got True"):
        claim(folder, {**SETTINGS, "tune": True})
    assert (folder / MARKER).read_text() == before
    assert (folder / "table.md").exists()


def test_a_tuned_folder_of_a_former_version_is_taken_by_a_tuned_call(tmp_path):
    (tmp_path / "runs" / "random-0ep").mkdir(parents=True)
    (tmp_path / MARKER).write_text(json.dumps({**SETTINGS, "tuning_epochs": 5}))
    with pytest.raises(ValueError, match="the same tune"):
        claim(tmp_path, SETTINGS)
    claim(tmp_path, {**SETTINGS, "tune": True}, writes=False)
    assert "tuning_epochs" in (tmp_path / MARKER).read_text()
    claim(tmp_path, {**SETTINGS, "tune": True})


def test_a_damaged_marker_is_named(tmp_path):
    (tmp_path / MARKER).write_text('{"data": ')
    with pytest.raises(ValueError, match=f"{MARKER} must be JSON, but is damaged"):
        claim(tmp_path, SETTINGS)


def test_other_settings_are_taken_until_something_is_trained(tmp_path):
    claim(tmp_path, SETTINGS)
    (tmp_path / "paces" / "0").mkdir(parents=True)
    claim(tmp_path, {**SETTINGS, "epochs": 12})
    assert (tmp_path / "paces" / "0").exists()
    claim(tmp_path, {**SETTINGS, "epochs": 12, "batch_size": 32})
    assert not (tmp_path / "paces").exists()
    (tmp_path / "tuning" / "swav-8ep").mkdir(parents=True)
    with pytest.raises(ValueError, match="the same epochs, but .* begun with 12 and got 24"):
        claim(tmp_path, {**SETTINGS, "batch_size": 32})
