import pytest
import torch
from helpers.distillation.small_maps import OWN, keep, save, state_of

from mmssprl.distillation import teacher_pass
from mmssprl.distillation.teacher import load_teacher


@pytest.fixture(scope="session")
def teacher():
    torch.manual_seed(0)
    return load_teacher(f"{OWN}:maps")


@pytest.fixture
def small(monkeypatch):
    """Batches of two images; the first four define the components, and each batch is saved."""
    for name, value in (("_BATCH", 2), ("SAMPLED", 4), ("_SAVE_S", 0.0)):
        monkeypatch.setattr(teacher_pass, name, value)


@pytest.fixture
def images(tmp_path):
    """Bitmaps of one size in bytes, and a photograph."""
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("0.bmp", "1.bmp", "2.bmp", "3.bmp", "4.bmp", "5.jpg"):
        save(folder / name)
    return folder


@pytest.fixture
def kept(tmp_path, teacher, images):
    """A folder with the maps of the images."""
    keep(tmp_path / "kept", teacher, images)
    return tmp_path / "kept"


@pytest.fixture
def single(monkeypatch):
    """Batches of one image; the first two define the components, and each batch is saved."""
    for name, value in (("_BATCH", 1), ("SAMPLED", 2), ("_SAVE_S", 0.0)):
        monkeypatch.setattr(teacher_pass, name, value)


@pytest.fixture
def stopped(tmp_path, teacher, images, single, monkeypatch):
    """A folder with a pass that ended after the first three images of its order."""
    run = teacher_pass.run_teacher
    calls = []

    def dying(*given):
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run(*given)

    with monkeypatch.context() as patch:
        patch.setattr(teacher_pass, "run_teacher", dying)
        with pytest.raises(KeyboardInterrupt):
            keep(tmp_path / "kept", teacher, images)
    assert state_of(tmp_path / "kept")["done"] == 3
    return tmp_path / "kept"
