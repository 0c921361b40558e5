"""`pretrain` calls DIR by its name, and tells two folders of one name apart."""

import pytest
from paces import stub_pace
from PIL import Image

from mmssprl.cli import main
from mmssprl.errors import UserValueError, called
from mmssprl.pretraining import start


def test_errors_about_the_folder_call_it_dir(tmp_path, capsys):
    assert main(["pretrain", str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().err.startswith(
        "mmssprl pretrain: error: DIR must be a folder of images or of tar files, or a tar file, "
        f"but '{tmp_path / 'gone'}' is missing"
    )
    (tmp_path / "empty").mkdir()
    assert main(["pretrain", str(tmp_path / "empty")]) == 2
    told = capsys.readouterr().err
    assert f"error: DIR '{tmp_path / 'empty'}/' must hold images" in told
    assert "none among 0 files; correct the path" in told
    (tmp_path / "empty" / "a.zip").touch()
    assert main(["pretrain", str(tmp_path / "empty")]) == 2
    assert "none among 1 file; correct the path, or decompress" in capsys.readouterr().err


def test_an_image_as_dir_is_told_to_be_one(tmp_path, capsys):
    Image.new("RGB", (64, 48)).save(tmp_path / "1.JPG")
    assert main(["pretrain", str(tmp_path / "1.JPG")]) == 2
    assert capsys.readouterr().err == (
        "mmssprl pretrain: error: DIR must be a folder of images or of tar files, or a tar file, "
        f"but '{tmp_path}/1.JPG' is an image; give its folder.\n"
    )


def test_only_errors_about_the_field_are_changed():
    with pytest.raises(UserValueError, match="^DIR must hold images$"), called("DIR"):
        raise UserValueError("data_root/data_prefix: must hold images")
    with pytest.raises(UserValueError, match="^epochs must be 1$"), called("DIR"):
        raise UserValueError("epochs must be 1")
    with pytest.raises(ValueError, match="^data_root/data_prefix$"), called("DIR"):
        raise ValueError("data_root/data_prefix")


@pytest.fixture
def trained(tmp_path, monkeypatch, on_cpu):
    """Folders ann/photos and bob/photos, and the work dirs that trainings are started in."""
    started = []
    monkeypatch.setattr(start, "train", lambda config, folder, **_: started.append(str(folder)))
    stub_pace(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for owner in ("ann", "bob"):
        (tmp_path / owner / "photos").mkdir(parents=True)
        for i in range(8):
            Image.new("RGB", (64, 48), (i, 2 * i, 3 * i)).save(f"{owner}/photos/{i}.png")
    return started


COMMAND = ["pretrain", "--backbone", "resnet18", "--epochs", "1"]


def test_folders_of_one_name_get_two_work_dirs_that_resume_finds(trained, tmp_path, capsys):
    first, second, third = (f"work_dirs/pretrain_photos{end}" for end in ("", "-2", "-3"))
    assert main(["pretrain", "bob/photos", "--resume"]) == 2
    assert f"the config of one run in {first}, but found 0" in capsys.readouterr().err
    assert main([*COMMAND, "ann/photos"]) == 0
    (tmp_path / second).mkdir()
    (tmp_path / second / "notes.txt").touch()
    assert main([*COMMAND, "bob/photos"]) == 0
    assert f"config: {third}/ssprl_resnet18.py\n" in capsys.readouterr().out
    assert trained == [first, third]
    for owner in ("bob", "ann"):
        assert main(["pretrain", f"{owner}/photos/", "--resume"]) == 0
    assert trained[2:] == [third, first]
    (tmp_path / second / "notes.txt").unlink()
    capsys.readouterr()
    assert main([*COMMAND, "bob/photos"]) == 2  # though a work dir before it is free again
    assert f"but {third} holds files of the run on {tmp_path}/bob" in capsys.readouterr().err
    (tmp_path / first / "ssprl_resnet18.py").write_text("data_root = ")
    assert main(["pretrain", "ann/photos", "--resume"]) == 2
    assert "ssprl_resnet18.py: line 1: invalid syntax" in capsys.readouterr().err


def test_a_used_work_dir_is_refused_by_the_images_of_its_run(trained, tmp_path, capsys):
    assert main([*COMMAND, "ann/photos"]) == 0
    capsys.readouterr()
    assert main([*COMMAND, "bob/photos", "--work-dir", "work_dirs/pretrain_photos"]) == 2
    anns = tmp_path / "ann" / "photos"
    assert capsys.readouterr().err == (
        "mmssprl pretrain: error: the work dir must be new or empty, but "
        f"work_dirs/pretrain_photos holds files of the run on {anns}; go on with that run by "
        f"--resume with DIR {anns}, or give another --work-dir.\n"
    )
    assert main(["pretrain", "bob/photos", "--work-dir", "work_dirs/pretrain_photos", "--resume"])
    assert f"run's own images, {anns}, but DIR is bob/photos" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert main([*COMMAND, "bob/photos", "--work-dir", "other"]) == 2
    assert "other holds files; go on with its run by --resume" in capsys.readouterr().err
