"""Teachers of all kinds, their components, and the file of their maps."""

import json
import os
import signal
from multiprocessing import get_context
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.saving.stopped_runs import assert_equal, train, write_pretraining
from mmengine.config import Config

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.transforms.teacher_crop import TeacherCrop, grid_of
from mmssprl.distillation import maps
from mmssprl.distillation.maps import MAPS, keep_maps, principal_components
from mmssprl.distillation.teacher import Teacher, load_teacher
from mmssprl.errors import UserError, UserFileExistsError, UserOSError, UserValueError
from mmssprl.models import TimmBackbone
from mmssprl.weights import build_backbone, write_description

OWN = "helpers.models.own_nets"
PX, SIZE = 64, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten images, the last of which cannot be read."""
    folder = write_noise(tmp_path_factory.mktemp("images"))
    last = max(folder.iterdir())
    last.write_bytes(last.read_bytes()[:60])
    return folder


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    return load_teacher(f"{OWN}:maps")


@pytest.fixture
def small(monkeypatch):
    """Batches of two images; the first four tell the components, and each batch is saved."""
    for name, value in (("_BATCH", 2), ("_SAMPLED", 4), ("_SAVE_S", 0.0)):
        monkeypatch.setattr(maps, name, value)


def keep(folder, teacher, images, **options):
    return keep_maps(folder, teacher, UnlabeledImages(str(images)), px=PX, size=SIZE, **options)


def read(folder, num=10):
    cells = json.loads((folder / MAPS).with_suffix(".json").read_text())["num_cells"]
    return np.fromfile(folder / MAPS, np.float16).reshape(num, cells, SIZE)


def test_components_equal_a_singular_value_decomposition():
    cells = np.random.default_rng(0).normal(size=(200, 6)) * [9, 5, 3, 2, 1, 0.5] + 4
    mean, components, share = principal_components(cells, 3)
    centred = cells - cells.mean(axis=0)
    _, sigma, vectors = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(mean, cells.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(components @ components.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(np.abs((components * vectors[:3]).sum(axis=1)), 1, atol=1e-6)
    assert (components[np.arange(3), np.abs(components).argmax(axis=1)] > 0).all()
    assert share == pytest.approx((sigma[:3] ** 2).sum() / (sigma**2).sum())
    _, padded, whole = principal_components(cells, 8)
    assert (padded[6:] == 0).all()
    assert whole == pytest.approx(1)


@pytest.mark.parametrize("cells", [np.full((9, 3), 7.0), np.full((9, 3), np.nan)])
def test_maps_that_do_not_vary_are_refused(cells):
    with pytest.raises(UserValueError, match="finite and differ from place to place"):
        principal_components(cells, 2)


def test_a_grid_has_the_aspect_of_its_image():
    sizes = ((224, 224), (128, 192), (10, 1000), (9, 1))
    assert [grid_of(*size, 49) for size in sizes] == [(7, 7), (6, 8), (1, 49), (18, 2)]


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        ("resnet10t", 32),
        ("deit_tiny_distilled_patch16_224", 16),  # two tokens before the map
        ("swin_tiny_patch4_window7_224", 32),  # channels last
    ],
)
def test_networks_of_timm_give_maps(name, stride, tmp_path):
    torch.manual_seed(0)
    network = TimmBackbone(name, "featmap").eval()
    torch.save(network.state_dict(), tmp_path / "w.pth")
    found = load_teacher(f"timm/{name}:{tmp_path / 'w.pth'}")
    assert found.stride == stride
    images = torch.randint(0, 256, (1, 3, 224, 224), dtype=torch.uint8)
    cfg = network.inner.pretrained_cfg
    mean, std = (torch.tensor(cfg[key])[:, None, None] for key in ("mean", "std"))
    with torch.no_grad():
        expected = network.inner.forward_features((images / 255 - mean) / std)
    if expected.dim() == 3:  # (1, tokens, C): the last ones are the map, by rows
        side = 224 // stride
        expected = expected[:, -(side**2) :].transpose(1, 2).unflatten(2, (side, side))
    if name.startswith("swin"):
        expected = expected.movedim(3, 1)
    torch.testing.assert_close(found(images), expected, atol=2e-4, rtol=1e-4)


def test_a_file_of_ours_is_a_teacher_by_its_description(tmp_path):
    backbone = {"type": "VisionTransformer", "arch": "deit-tiny", "img_size": 224}
    backbone |= {"patch_size": 16, "out_type": "avg_featmap"}
    cfg = Config({"model": {"backbone": backbone, "layout": {"image_px": 224, "levels": []}}})
    torch.manual_seed(0)
    torch.save(build_backbone(cfg).state_dict(), tmp_path / "vit.pth")
    write_description(tmp_path / "vit.pth", cfg)
    found = load_teacher(str(tmp_path / "vit.pth"))
    assert found.stride == 16
    assert found(torch.zeros(1, 3, 224, 224, dtype=torch.uint8)).shape == (1, 192, 14, 14)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (f"{OWN}:vector", "a feature map, but this one gives a vector of 5 features"),
        (f"{OWN}:wrapped", r"must take RGB images of any size, but .*:wrapped raises RuntimeE"),
        (f"{OWN}:nothing", "a NoneType"),
        ("w.pth", "^teacher must be .*, but there is no w.pth; correct the path"),
    ],
)
def test_what_is_no_teacher_is_refused(weights, message):
    with pytest.raises(UserError, match=message):
        load_teacher(weights)


@pytest.mark.usefixtures("small")
def test_maps_are_the_components_of_each_image(folder, teacher, tmp_path):
    state = keep(tmp_path, teacher, folder)
    assert (state["done"], state["num_cells"]) == (10, 256)
    with np.load(tmp_path / "teacher_components.npz") as kept:
        mean, components = kept["mean"], kept["components"]
    found, images = read(tmp_path), UnlabeledImages(str(folder))
    for index in range(9):
        rows, columns = grid_of(*images.load_image(index).shape[1:], 256)
        _, image = maps._Inputs(images, teacher.stride, 256)[index]
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
    whole, cut, run, calls = tmp_path / "whole", tmp_path / "cut", maps._run, []

    def dying(*given):
        calls.append(given)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(*given)

    def keep_until_killed():
        torch.set_num_threads(1)  # those of this process do not survive a fork
        maps._run = dying
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
        (teacher, tmp_path / "fewer", SIZE, "images"),
        (teacher, folder, SIZE + 1, "size"),
    ):
        with pytest.raises(UserFileExistsError, match=f"but {named} differ; delete .*json"):
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
