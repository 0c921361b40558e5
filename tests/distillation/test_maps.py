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
        mean, components = kept["mean"], kept["components"]
    found, images = read(tmp_path), UnlabeledImages(str(folder))
    for index in range(9):
        rows, columns = grid_of(*images.load_image(index).shape[1:], 256)
        _, image, _ = teacher_pass.TeacherInputs(images, teacher.stride, 256)[index]
        assert image.shape[1:] == (rows * 4, columns * 4)
        cells = teacher(image[None])[0].flatten(1).T.numpy()
        expected = (cells - mean) @ components.T
        np.testing.assert_allclose(found[index, : len(cells)], expected, atol=2e-3)
        assert not found[index, len(cells) :].any()
    assert not found[9].any()  # it cannot be read
    crop = TeacherCrop({"image_px": 32, "levels": []})
    crop.take_maps(tmp_path / MAPS, 256, SIZE)
    sample = crop({"img": images.load_image(3), "sample_idx": 3})["data_samples"]
    np.testing.assert_array_equal(sample["maps"], found[3])
    height, width = images.load_image(3).shape[1:]
    assert sample["sizes"].tolist() == [height, width, *grid_of(height, width, 256)]


@pytest.mark.fault
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("call", [2, 4])  # before and after there are components
def test_a_killed_pass_is_resumed_to_an_equal_file(call, folder, teacher, tmp_path):
    whole, cut, run, calls = tmp_path / "whole", tmp_path / "cut", teacher_pass.run_teacher, []

    def dying(*given):
        calls.append(given)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(*given)

    def keep_until_killed():
        torch.set_num_threads(1)  # those of this process do not survive a fork
        teacher_pass.run_teacher = dying
        keep(cut, teacher, folder)

    process = get_context("fork").Process(target=keep_until_killed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    keep(cut, teacher, folder)
    keep(whole, teacher, folder)
    assert (cut / MAPS).read_bytes() == (whole / MAPS).read_bytes()


@pytest.mark.usefixtures("small")
def test_maps_of_others_are_refused_and_kept(folder, teacher, tmp_path):
    keep(tmp_path, teacher, folder)
    before = (tmp_path / MAPS).read_bytes()
    assert keep(tmp_path, Teacher("elsewhere", teacher.network), folder)["done"] == 10
    network = load_teacher(f"{OWN}:maps").network
    next(network.parameters()).mul_(2)
    other = Teacher(teacher.name, network)
    (tmp_path / "fewer").mkdir()
    for path in sorted(folder.iterdir())[:8]:
        (tmp_path / "fewer" / path.name).write_bytes(path.read_bytes())
    for given, images, size, named in (
        (other, folder, SIZE, "weights"),
        (teacher, tmp_path / "fewer", SIZE, "num_images"),
        (teacher, folder, SIZE + 1, "size"),
    ):
        with pytest.raises(UserFileExistsError, match=f"but differs in {named}; delete .*json"):
            keep_maps(tmp_path, given, UnlabeledImages(str(images)), px=PX, size=size)
    assert (tmp_path / MAPS).read_bytes() == before


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
    config, layout = tmp_path / "distilled.py", {"image_px": 16, "levels": []}
    if not config.exists():
        write_pretraining(tmp_path)
    cfg = Config.fromfile(tmp_path / "stopped.py")
    model = {"type": "PyramidDistillation", "layout": layout, "backbone": cfg.model.backbone}
    model["neck"] = {"type": "MultiHeadNeck", "in_channels": 8, "hid_channels": 8}
    model["neck"]["out_channels"] = SIZE
    cfg.model = model
    cfg.train_dataloader.dataset.pipeline = [{"type": crop, "layout": layout}]
    cfg.custom_hooks = [{"type": "PretrainHook"}, {"type": "TeacherHook", **hook}]
    cfg.dump(config)
    train(config, tmp_path / name, **options)
    return torch.load(tmp_path / name / "epoch_3.pth", weights_only=False)["state_dict"]


def test_a_training_is_the_same_with_new_maps_and_with_found_ones_after_stops(tmp_path):
    hook = {"teacher": f"{OWN}:maps", "teacher_px": 32}
    first = distilled(tmp_path, "first", hook)
    cut = distilled(tmp_path, "cut", {**hook, "folder": str(tmp_path / "first")}, stops=(2, 7))
    assert_equal(cut, first, "weights")
    assert not list((tmp_path / "cut").glob("teacher*"))


def test_a_hook_needs_its_model_and_its_crop(tmp_path):
    with pytest.raises(UserValueError, match="TeacherHook needs .* got PyramidDistillation and 0"):
        distilled(tmp_path, "a", {"teacher": f"{OWN}:maps"}, crop="PyramidCrop")
