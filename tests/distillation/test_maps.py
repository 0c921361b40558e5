"""The file of a teacher's maps: its values, a killed pass, a full disk, and the hook."""

import os
import signal
from multiprocessing import get_context
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.distillation.small_maps import OWN, PX, SIZE, keep, read
from helpers.saving.stopped_runs import assert_equal, train, write_pretraining
from mmengine.config import Config

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.transforms.teacher_crop import TeacherCrop, grid_of
from mmssprl.distillation import teacher_pass
from mmssprl.distillation.maps import keep_maps
from mmssprl.distillation.teacher import Teacher, load_teacher
from mmssprl.distillation.teacher_pass import MAPS
from mmssprl.errors import UserFileExistsError, UserOSError, UserValueError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten images, the last of which cannot be read."""
    folder = write_noise(tmp_path_factory.mktemp("images"))
    last = max(folder.iterdir())
    last.write_bytes(last.read_bytes()[:60])
    return folder


@pytest.mark.usefixtures("small")
def test_maps_are_the_components_of_each_image(folder, teacher, tmp_path):
    state = keep(tmp_path, teacher, folder)
    assert (state["done"], state["num_cells"]) == (10, 256)
    with np.load(tmp_path / "teacher_components.npz") as kept:
        mean = kept["mean"]
        components = kept["components"]
    found = read(tmp_path)
    images = UnlabeledImages(str(folder))

    for index in range(9):
        rows, columns = grid_of(*images.load_image(index).shape[1:], 256)
        _, image, _ = teacher_pass.TeacherInputs(images, teacher.stride, 256)[index]
        assert image.shape[1:] == (rows * 4, columns * 4)
        cells = teacher(image[None])[0].flatten(1).T.numpy()
        expected = (cells - mean) @ components.T
        np.testing.assert_allclose(found[index, : len(cells)], expected, atol=2e-3)
        assert not found[index, len(cells) :].any()
    assert not found[9].any()  # it cannot be read


@pytest.mark.usefixtures("small")
def test_a_crop_reads_the_map_of_its_image(folder, teacher, tmp_path):
    keep(tmp_path, teacher, folder)
    image = UnlabeledImages(str(folder)).load_image(3)
    crop = TeacherCrop({"image_px": 32, "levels": []})
    crop.take_maps(tmp_path / MAPS, 256, SIZE)
    sample = crop({"img": image, "sample_idx": 3})["data_samples"]
    np.testing.assert_array_equal(sample["maps"], read(tmp_path)[3])
    height, width = image.shape[1:]
    assert sample["sizes"].tolist() == [height, width, *grid_of(height, width, 256)]


@pytest.mark.fault
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("call", [2, 4])  # before and after there are components
def test_a_killed_pass_is_resumed_to_an_equal_file(call, folder, teacher, tmp_path):
    run = teacher_pass.run_teacher
    calls = []

    def dying(*given):
        calls.append(given)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(*given)

    def keep_until_killed():
        torch.set_num_threads(1)  # those of this process do not survive a fork
        teacher_pass.run_teacher = dying
        keep(tmp_path / "cut", teacher, folder)

    process = get_context("fork").Process(target=keep_until_killed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    keep(tmp_path / "cut", teacher, folder)
    keep(tmp_path / "whole", teacher, folder)
    assert (tmp_path / "cut" / MAPS).read_bytes() == (tmp_path / "whole" / MAPS).read_bytes()


@pytest.fixture
def another(folder, teacher, tmp_path):
    """A teacher, images and a size that are not those of kept maps, by what differs."""
    network = load_teacher(f"{OWN}:maps").network
    next(network.parameters()).mul_(2)
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    for path in sorted(folder.iterdir())[:8]:
        (fewer / path.name).write_bytes(path.read_bytes())
    return {
        "weights": (Teacher(teacher.name, network), folder, SIZE),
        "num_images": (teacher, fewer, SIZE),
        "size": (teacher, folder, SIZE + 1),
    }


@pytest.mark.usefixtures("small")
def test_maps_of_another_teacher_images_or_size_are_refused(another, folder, teacher, tmp_path):
    keep(tmp_path, teacher, folder)
    before = (tmp_path / MAPS).read_bytes()
    for what, (given, images, size) in another.items():
        with pytest.raises(UserFileExistsError, match=f"but differs in {what}; delete .*json"):
            keep_maps(tmp_path, given, UnlabeledImages(str(images)), px=PX, size=size)
    assert (tmp_path / MAPS).read_bytes() == before


@pytest.mark.usefixtures("small")
def test_the_file_of_a_teacher_may_move(folder, teacher, tmp_path):
    keep(tmp_path, teacher, folder)
    assert keep(tmp_path, Teacher("elsewhere", teacher.network), folder)["done"] == 10


def test_a_full_disk_is_reported_before_the_pass(folder, teacher, tmp_path, monkeypatch):
    full = mock.Mock(side_effect=OSError(28, os.strerror(28)))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserOSError, match=r"need .* MB on the disk of .* \(No space left"):
        keep(tmp_path, teacher, folder)


def test_too_little_memory_is_reported(folder, teacher, tmp_path, monkeypatch):
    refuse = mock.Mock(side_effect=torch.OutOfMemoryError("x"))
    monkeypatch.setattr(teacher, "forward", refuse)
    with pytest.raises(RuntimeError, match="needs more memory than the device has"):
        keep(tmp_path, teacher, folder)


def distilled(tmp_path, name, hook, crop="TeacherCrop", **options):
    """Train a small distillation, with the images and the runtime of ``stopped_runs``."""
    config = tmp_path / "distilled.py"
    if not config.exists():
        write_pretraining(tmp_path)
    cfg = Config.fromfile(tmp_path / "stopped.py")
    layout = {"image_px": 16, "levels": []}
    neck = {"in_channels": 8, "hid_channels": 8, "out_channels": SIZE}
    cfg.model = {
        "type": "PyramidDistillation",
        "layout": layout,
        "backbone": cfg.model.backbone,
        "neck": {"type": "MultiHeadNeck", **neck},
    }
    cfg.train_dataloader.dataset.pipeline = [{"type": crop, "layout": layout}]
    cfg.custom_hooks = [{"type": "PretrainHook"}, {"type": "TeacherHook", **hook}]
    cfg.dump(config)
    train(config, tmp_path / name, **options)
    return torch.load(tmp_path / name / "epoch_3.pth", weights_only=False)["state_dict"]


def test_a_stopped_training_on_found_maps_equals_the_one_that_made_them(tmp_path):
    hook = {"teacher": f"{OWN}:maps", "teacher_px": 32}
    first = distilled(tmp_path, "first", hook)
    cut = distilled(tmp_path, "cut", {**hook, "folder": str(tmp_path / "first")}, stops=(2, 7))
    assert_equal(cut, first, "weights")
    assert not list((tmp_path / "cut").glob("teacher*"))


def test_a_hook_without_its_crop_is_refused(tmp_path):
    with pytest.raises(UserValueError, match="TeacherHook needs .* got PyramidDistillation and 0"):
        distilled(tmp_path, "a", {"teacher": f"{OWN}:maps"}, crop="PyramidCrop")
