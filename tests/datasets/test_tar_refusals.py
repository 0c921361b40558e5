import gzip
import os
import tarfile

import pytest
from helpers.datasets.image_folders import build, folder, make_tar

BLOCK = tarfile.BLOCKSIZE


def ends(tar):
    """Where the data of each member ends, padded."""
    with tarfile.open(tar) as archive:
        return [m.offset_data + -(-m.size // BLOCK) * BLOCK for m in archive]


@pytest.mark.parametrize(
    ("past", "whole"),
    [
        (300, "images/02.png"),  # in the middle of a header
        (BLOCK + 40, "images/02.png"),  # in the middle of the data
        (0, "images/02.png"),  # between two members, where tar would say nothing
        (-1, "images/01.png"),  # in the zeros behind the data
    ],
)
def test_a_shard_that_is_cut_off_is_refused(tmp_path, past, whole):
    root = folder(tmp_path / "images", 6)
    make_tar(tmp_path / "shards/a.tar", root)
    tar = make_tar(tmp_path / "shards/b.tar", root)
    of_images = ends(tar)[1:]  # the first member is the folder
    size = of_images[2] + past
    os.truncate(tar, size)
    end = of_images[int(whole[-5])]
    match = rf"b.tar: .* '{whole}', but this one is cut off.* from byte {end:,} to {size:,}"
    with pytest.raises(ValueError, match=match):
        build(tmp_path / "shards")


def test_a_file_that_is_cut_off_in_its_first_member_is_refused(tmp_path):
    tar, root = tmp_path / "a.tar", folder(tmp_path / "images", 1)
    for form, match in (
        (tarfile.GNU_FORMAT, "member, '', but .* from byte 0 to 532"),
        (tarfile.PAX_FORMAT, "is none or is cut off"),  # has a header before the header
    ):
        with tarfile.open(tar, "w", format=form) as archive:
            archive.add(root / "00.png", "00.png")
        os.truncate(tar, BLOCK + 20)
        with pytest.raises(ValueError, match=match):
            build(tar)


def test_files_that_are_no_tar_files(tmp_path):
    tar = make_tar(tmp_path / "images.tar", folder(tmp_path / "images", 2))
    for name, content, reason in (
        ("photos.tar.gz", gzip.compress(tar.read_bytes()), r"\); decompress it"),
        ("empty.tar", b"", "empty file"),
        ("text.tar", b"a diary " * 200, ""),
        ("photo", b"\xff\xd8\xff", "truncated header"),
    ):
        (tmp_path / name).write_bytes(content)
        match = rf"{name}: must be .* none or is cut off \(.*{reason}"
        with pytest.raises(ValueError, match=match):
            build(tmp_path / name)


def test_a_tar_file_without_images(tmp_path):
    (tmp_path / "x").mkdir()
    make_tar(tmp_path / "x" / "n01.tar", folder(tmp_path / "images", 1))
    make_tar(tmp_path / "x" / "n02.tar", tmp_path / "images")
    with pytest.raises(ValueError, match=r"2 other files .* unpack it"):
        build(make_tar(tmp_path / "train.tar", tmp_path / "x"))
    (tmp_path / "zeros.tar").write_bytes(bytes(10240))
    with pytest.raises(ValueError, match="0 other files"):
        build(tmp_path / "zeros.tar")


def test_a_folder_of_both_kinds_and_a_list_are_refused(tmp_path):
    root = folder(tmp_path / "images", 5)
    tar = make_tar(root / "sub" / "old.tar", folder(tmp_path / "others", 2))
    with pytest.raises(ValueError, match="5 images and sub/old.tar"):
        build(root)
    with pytest.raises(ValueError, match=r"ann_file must be empty .*old.tar.*-T LIST"):
        build(tar, ann_file="list.txt")
