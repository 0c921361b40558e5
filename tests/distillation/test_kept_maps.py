"""Kept maps are used only with the images and the files that they were made with."""

import json
import os
import shutil
from operator import attrgetter

import numpy as np
import pytest
from helpers.datasets.image_folders import make_tar
from helpers.distillation.small_maps import SIZE, keep, read, save, state_of

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.transforms.teacher_crop import TeacherCrop
from mmssprl.distillation import teacher_pass
from mmssprl.distillation.teacher_pass import COMPONENTS, IDENTITIES, MAPS, STATE, pass_order
from mmssprl.errors import UserFileExistsError, UserOSError, UserRuntimeError, UserValueError

REMEDY = "; delete .*/teacher_maps.json to make the maps again, or choose another folder"
NUM = 6


def take_a_name(images):
    data = (images / "1.bmp").read_bytes()
    assert len(data) == (images / "2.bmp").stat().st_size
    (images / "2.bmp").write_bytes(data)
    os.utime(images / "2.bmp", ns=(1, 1))


def turn_in_place(images):
    path = images / "5.jpg"
    size = path.stat().st_size
    _, height, width = read_image(path).shape
    save(path, orientation=6)
    assert (path.stat().st_size, read_image(path).shape) == (size, (3, width, height))


def swap_names(images):
    (images / "3.bmp").rename(images / "spare")
    (images / "4.bmp").rename(images / "3.bmp")
    (images / "spare").rename(images / "4.bmp")


@pytest.mark.parametrize(
    ("change", "num", "first"),
    [(take_a_name, 1, "2.bmp"), (turn_in_place, 1, "5.jpg"), (swap_names, 2, "3.bmp")],
)
def test_maps_of_other_bytes_under_the_same_names_are_refused(
    change, num, first, kept, teacher, images
):
    before = (kept / MAPS).read_bytes()
    change(images)
    since = "have changed since the teacher saw them"
    message = f"but the bytes of {num} of 6 {since}, first .*/{first}{REMEDY}"
    for _ in range(2):  # a refusal makes nothing right
        with pytest.raises(UserFileExistsError, match=message):
            keep(kept, teacher, images)
    assert (kept / MAPS).read_bytes() == before


def test_each_image_counts_however_many_there_are(kept, teacher, images, monkeypatch):
    monkeypatch.setattr("mmssprl.datasets.unlabeled_images._MOST_SIZED", 2)
    for path in sorted(images.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data + b"0")
        message = f"the bytes of 1 of 6 .* first .*/{path.name};"
        with pytest.raises(UserFileExistsError, match=message):
            keep(kept, teacher, images)
        path.write_bytes(data)
    keep(kept, teacher, images)


def test_a_copy_of_the_images_is_read_once(kept, teacher, images, tmp_path, monkeypatch):
    before = (kept / MAPS).read_bytes()
    shutil.copytree(images, tmp_path / "copy", copy_function=shutil.copyfile)
    make_tar(tmp_path / "copy.tar", images, inside=True)
    load = UnlabeledImages.read_bytes
    rows = []

    def noted(self, row):
        rows.append(row)
        return load(self, row)

    monkeypatch.setattr("mmssprl.distillation.maps.run_pass", None)
    monkeypatch.setattr(UnlabeledImages, "read_bytes", noted)
    for copy in ("copy", "copy", "copy.tar", "copy.tar"):
        keep(kept, teacher, tmp_path / copy)
    assert rows == 2 * list(range(NUM))
    assert (kept / MAPS).read_bytes() == before


def test_images_of_a_tar_file_that_swap_names_are_found(kept, teacher, images, tmp_path):
    tar = make_tar(tmp_path / "images.tar", images, inside=True)
    keep(kept, teacher, tar)
    swap_names(images)
    make_tar(tar, images, inside=True)
    with pytest.raises(UserFileExistsError, match="the bytes of 2 of 6 .* first .*/3.bmp;"):
        keep(kept, teacher, tar)


def test_a_resumed_pass_sees_images_that_have_changed_since(stopped, teacher, images, tmp_path):
    order = pass_order(NUM)
    path = sorted(images.iterdir())[order[1]]
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"0")
    with pytest.raises(UserFileExistsError, match=f"the bytes of 1 of 6 .* first .*/{path.name};"):
        keep(stopped, teacher, images)

    path.write_bytes(data)
    later = sorted(images.iterdir())[order[4]]
    later.write_bytes(later.read_bytes()[:-9] + 9 * b"0")
    keep(stopped, teacher, images)
    keep(tmp_path / "whole", teacher, images)
    assert (stopped / MAPS).read_bytes() == (tmp_path / "whole" / MAPS).read_bytes()


def test_a_pass_that_ends_at_any_operation_on_a_file_is_resumed(
    teacher, images, single, tmp_path, monkeypatch
):
    calls = []
    last = 0

    def ending(operation):
        def run(*given, **options):
            calls.append(operation)
            if len(calls) == last:
                raise KeyboardInterrupt
            return operation(*given, **options)

        return run

    for place in ("write_whole", "whole_file", "os.posix_fallocate", "np.memmap.flush"):
        operation = attrgetter(place)(teacher_pass)
        monkeypatch.setattr(f"mmssprl.distillation.teacher_pass.{place}", ending(operation))
    keep(tmp_path / "whole", teacher, images)
    num = len(calls)
    assert num == 2 + 1 + 3 * 5  # two files, components, and five times: two files, description

    for last in range(num + 1, 2 * num + 1):
        folder = tmp_path / str(last)
        del calls[num:]
        with pytest.raises(KeyboardInterrupt):
            keep(folder, teacher, images)
        keep(folder, teacher, images)
        for name in (MAPS, IDENTITIES):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_maps_of_an_older_version_are_refused(kept, teacher, images):
    state = state_of(kept)
    old = ("teacher", "weights", "teacher_px", "num_cells", "size", "done", "seconds")
    (kept / STATE).write_text(json.dumps({key: state[key] for key in old}))
    (kept / IDENTITIES).unlink()
    message = f"but differs in its version, an older one that did not note the images{REMEDY}"
    with pytest.raises(UserFileExistsError, match=message):
        keep(kept, teacher, images)


def delete(path):
    path.unlink()


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("spoil", [delete, cut])
@pytest.mark.parametrize("name", [MAPS, IDENTITIES])
@pytest.mark.parametrize("folder", ["kept", "stopped"])
def test_a_file_that_is_gone_or_cut_is_refused(folder, name, spoil, request, teacher, images):
    folder = request.getfixturevalue(folder)
    size = (folder / name).stat().st_size
    spoil(folder / name)
    what = "is gone" if spoil is delete else f"has {size - 1:,}"
    message = f"kept/{name} must have {size:,} bytes, but {what}{REMEDY}"
    with pytest.raises(UserValueError, match=message):
        keep(folder, teacher, images)


@pytest.mark.parametrize(("spoil", "error"), [(delete, "FileNotFound"), (cut, "BadZipFile")])
def test_components_are_needed_until_the_pass_has_ended(spoil, error, stopped, teacher, images):
    components = (stopped / COMPONENTS).read_bytes()
    spoil(stopped / COMPONENTS)
    message = f"must hold the components of .* cannot be read \\({error}.*{REMEDY}"
    with pytest.raises(UserValueError, match=message):
        keep(stopped, teacher, images)

    (stopped / COMPONENTS).write_bytes(components)
    keep(stopped, teacher, images)
    (stopped / COMPONENTS).unlink()
    assert keep(stopped, teacher, images)["done"] == NUM


def test_a_damaged_description_is_refused(kept, teacher, images):
    cut(kept / STATE)
    os.truncate(kept / STATE, 9)
    with pytest.raises(
        UserValueError, match=r"the description of .* \(JSONDecodeError\); delete it"
    ):
        keep(kept, teacher, images)


def test_a_file_that_another_program_deletes_in_the_pass_is_missed(
    teacher, images, tmp_path, monkeypatch
):
    run = teacher_pass.run_teacher

    def deleting(*given):
        (tmp_path / "kept" / MAPS).unlink()
        return run(*given)

    monkeypatch.setattr(teacher_pass, "run_teacher", deleting)
    with pytest.raises(UserValueError, match=f"{MAPS} must have .* bytes, but is gone"):
        keep(tmp_path / "kept", teacher, images)


def test_a_resumed_pass_leaves_nothing_of_earlier_values(stopped, teacher, images, tmp_path):
    bad = sorted(images.iterdir())[pass_order(NUM)[3]]
    bad.write_bytes(b"no image")
    maps = read(stopped)
    maps[pass_order(NUM)[3:]] = 7
    maps.tofile(stopped / MAPS)
    keep(stopped, teacher, images)
    keep(tmp_path / "whole", teacher, images)
    assert (stopped / MAPS).read_bytes() == (tmp_path / "whole" / MAPS).read_bytes()


def test_a_new_pass_leaves_nothing_of_a_longer_file(kept, teacher, images):
    before = (kept / MAPS).read_bytes()
    np.full(read(kept).size + 5, 7, np.float16).tofile(kept / MAPS)
    (kept / STATE).unlink()
    keep(kept, teacher, images)
    assert (kept / MAPS).read_bytes() == before


def test_a_drive_that_fails_in_the_pass_gives_no_empty_maps(teacher, images, tmp_path):
    for name in ("1.bmp", "4.bmp"):
        (images / name).write_bytes(b"")
    with pytest.raises(UserRuntimeError, match=r"too many images are unreadable, 2 of 6"):
        keep(tmp_path / "kept", teacher, images, num_workers=1)
    assert not (tmp_path / "kept" / STATE).exists()


def write_again(path):
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(1, 1))  # the clock of files may be too coarse for a test


@pytest.mark.parametrize("spoil", [delete, cut, write_again])
def test_maps_that_change_while_a_training_reads_them_are_refused(spoil, kept, images):
    crop = TeacherCrop({"image_px": 32, "levels": []})
    num_cells = state_of(kept)["num_cells"]
    crop.take_maps(kept / MAPS, num_cells, SIZE)
    image = {"img": read_image(images / "1.bmp"), "sample_idx": 1}
    found = crop(dict(image))["data_samples"]["maps"]
    np.testing.assert_array_equal(found, read(kept)[1])
    spoil(kept / MAPS)
    with pytest.raises(UserOSError, match="must not change while a training learns from it"):
        crop(dict(image))
