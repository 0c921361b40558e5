import gzip
import os
import subprocess
import tarfile

import pytest
import torch
from helpers.datasets.image_folders import (
    CROP,
    build,
    folder,
    greens,
    make_tar,
    names,
    save,
)
from mmengine.dataset import pseudo_collate
from torch.utils.data import DataLoader

from mmssprl.datasets import tar_images
from mmssprl.datasets.image_reading import ImageReadError


def mixed_folder(root):
    """Images of several formats and folders, one with a name that is no Unicode, one empty."""
    for i, name in enumerate(["b/1.jpg", "a-b.PNG", "a/2.webp", "ä ö.bmp", "a/deep/3.jpeg"]):
        save(root / name, 40 * i, (20 + i, 30))
    os.rename(root / "a" / "2.webp", os.fsencode(root) + b"/a/\xff.webp")
    (root / "c.jpg").write_bytes(b"")
    (root / "d.jpg").write_bytes((root / "b" / "1.jpg").read_bytes()[:300])
    return root


def crops(dataset, epoch, num_workers):
    dataset.set_epoch(epoch, seed=5)
    loader = DataLoader(dataset, 1, num_workers=num_workers, collate_fn=pseudo_collate)
    return [batch["inputs"][0][0] for batch in loader]


@pytest.mark.parametrize(
    ("form", "longest", "workers"), [("gnu", 250, 2), ("pax", 250, 0), ("ustar", 90, 0)]
)
def test_samples_are_those_of_the_folder(tmp_path, warnings, form, longest, workers):
    root = mixed_folder(tmp_path / "images")
    save(root / ("long" * 20) / ("n" * (longest - 4) + ".png"), 250)
    tar = make_tar(tmp_path / "images.tar", root, f"--format={form}")
    from_folder = build(root, pipeline=[CROP], max_bad_share=1.0)
    from_tar = build(tar, pipeline=[CROP], max_bad_share=1.0)
    assert names(from_tar, tar / "images") == names(from_folder, root)
    assert len(from_tar) == 8
    both = [crops(dataset, 3, workers) for dataset in (from_folder, from_tar)]
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))
    assert len({crop.numpy().tobytes() for crop in both[0]}) == 8


def test_shards_give_the_samples_of_folders_of_their_names(tmp_path, warnings):
    for i, name in enumerate(["n02/a.jpg", "n01-2/b.jpg", "n01/c.jpg", "deep/n03/sub/d.jpg"]):
        save(tmp_path / "images" / name, i)
    for name in ("notes.txt", "c.rw2", "d.rw2"):
        (tmp_path / "images" / "n01" / name).touch()
    shards = tmp_path / "data" / "train"
    for name in ("n02", "n01-2", "n01", "deep/n03"):
        make_tar(shards / f"{name}.tar", tmp_path / "images" / name, inside=True)
    (shards / "n02.tar").rename(shards / "n02.TAR")
    (shards / "n04.tar.gz").write_bytes(b"")
    from_folder = build(tmp_path / "images", pipeline=[CROP])
    from_shards = build(tmp_path / "data", data_prefix="train", pipeline=[CROP])
    assert from_shards.skipped == {".gz": 1, ".txt": 1, ".rw2": 1}
    found = names(from_shards, shards)
    assert found == ["deep/n03/sub/d.jpg", "n01-2/b.jpg", "n01/c.jpg", "n02/a.jpg"]
    assert found == names(from_folder, tmp_path / "images")
    both = [crops(dataset, 1, 0) for dataset in (from_folder, from_shards)]
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))


def test_only_visible_regular_images_count(tmp_path):
    root = folder(tmp_path / "images", 2)
    for name in (".hidden.png", "._00.png", ".cache/a.png", "@eaDir/a.png"):
        save(root / name)
    (root / "notes.txt").write_text("no image")
    (root / "folder.png").mkdir()
    (root / "link.png").symlink_to("00.png")
    os.link(root / "01.png", root / "zz.png")
    os.mkfifo(root / "pipe.png")
    with (root / "sparse.bmp").open("wb") as file:
        file.truncate(10_000_000)
    tar = make_tar(tmp_path / "images.tar", root, "--sparse", inside=True)
    dataset = build(tar)
    assert names(dataset, tar) == ["00.png", "01.png"]
    assert dataset.skipped == {".txt": 1, "linked or sparse": 4}
    (root / "sparse.bmp").unlink()
    options = ["--dereference", "--hard-dereference"]
    again = make_tar(tmp_path / "again.tar", root, *options, inside=True)
    assert greens(build(again)) == [0, 1, 0, 1]


def test_headers_are_read_again_only_if_the_file_has_changed(tmp_path, monkeypatch):
    root = folder(tmp_path / "images", 3)
    tar = make_tar(tmp_path / "images.tar", root)
    read = []
    members = tar_images._members
    monkeypatch.setattr(tar_images, "_members", lambda tar: read.append(tar.path) or members(tar))
    for _ in range(2):
        assert greens(build(tar)) == [0, 1, 2]
    assert read == [str(tar)]

    save(root / "03.png", 3)
    make_tar(tar, root)
    assert greens(build(tar)) == [0, 1, 2, 3]
    assert read == [str(tar)] * 2


def test_of_members_of_one_name_the_last_counts_as_for_tar(tmp_path):
    root = folder(tmp_path / "images", 3)
    tar = make_tar(tmp_path / "images.tar", root)
    save(root / "01.png", 77)
    subprocess.run(["tar", "rf", tar, "-C", tmp_path, "images/01.png"], check=True)
    assert greens(build(tar)) == [0, 77, 2]


def test_images_of_a_changed_file_are_bad_images(tmp_path):
    tar = make_tar(tmp_path / "images.tar", folder(tmp_path / "images", 5))
    dataset = build(tar)
    state = tar.stat()

    def refused(reason="has changed since its headers were read"):
        with pytest.raises(ImageReadError, match=f"images/04.png: must be .*images.tar {reason}"):
            dataset.load_image(4)

    os.utime(tar, ns=(0, 0))
    refused()
    os.truncate(tar, state.st_size - 5000)
    os.utime(tar, ns=(0, state.st_mtime_ns))
    refused()
    tar.unlink()
    refused(r"cannot be read \(No such file")


BLOCK = tarfile.BLOCKSIZE


@pytest.mark.parametrize(
    ("past", "whole"),
    [
        (300, 2),  # in the middle of a header
        (BLOCK + 40, 2),  # in the middle of the data
        (0, 2),  # between two members, where tar would say nothing
        (-1, 1),  # in the zeros behind the data
    ],
)
def test_a_shard_that_is_cut_off_is_refused(tmp_path, past, whole):
    root = folder(tmp_path / "images", 6)
    make_tar(tmp_path / "shards/a.tar", root)
    tar = make_tar(tmp_path / "shards/b.tar", root)
    with tarfile.open(tar) as archive:  # where the data of each image end, after the folder
        ends = [m.offset_data + -(-m.size // BLOCK) * BLOCK for m in archive][1:]
    size = ends[2] + past
    os.truncate(tar, size)
    match = rf"b.tar: .* 'images/0{whole}.png', but .* from byte {ends[whole]:,} to {size:,}"
    with pytest.raises(ValueError, match=match):
        build(tmp_path / "shards")


def cut_in_its_first_member(path, form):
    with tarfile.open(path.with_suffix(".tar"), "w", format=form) as archive:
        archive.add(path, path.name)
    return path.with_suffix(".tar").read_bytes()[: BLOCK + 20]


def test_files_that_are_no_tar_files_of_images(tmp_path):
    image = folder(tmp_path / "images", 1) / "00.png"
    for name in ("n01", "n02"):
        make_tar(tmp_path / "tars" / f"{name}.tar", tmp_path / "images")
    no_tar = r"must be .* none or is cut off \(.*"
    for content, reason in (
        (gzip.compress((tmp_path / "tars/n01.tar").read_bytes()), rf"{no_tar}\); decompress it"),
        (b"", f"{no_tar}empty file"),
        (b"a diary " * 200, no_tar),
        (cut_in_its_first_member(image, tarfile.PAX_FORMAT), no_tar),
        (cut_in_its_first_member(image, tarfile.GNU_FORMAT), "'', but .* from byte 0 to 532"),
        (bytes(10240), "0 other files"),
        (make_tar(tmp_path / "a.tar", tmp_path / "tars").read_bytes(), "2 other files; unpack it"),
    ):
        (tmp_path / "photos.tar").write_bytes(content)
        with pytest.raises(ValueError, match=f"photos.tar: .*{reason}"):
            build(tmp_path / "photos.tar")
