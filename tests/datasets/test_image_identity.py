"""Images are recognised by size, times and bytes, and read again only if a time differs."""

import hashlib
import os
import time

import numpy as np
import pytest

from mmssprl.datasets.image_identity import find_changed, identity_of, stamp_of, stamps_of
from mmssprl.datasets.image_reading import ImageReadError, read_file

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def files(tmp_path):
    """Four files of four bytes with one time of modification, as an archive leaves them."""
    paths = [tmp_path / name for name in NAMES]
    for path in paths:
        path.write_text(4 * path.name)
        os.utime(path, ns=(1, 1))
    time.sleep(0.02)  # the clock of files is coarse
    return paths


def identities(files):
    return np.stack([identity_of(stamp_of(path), read_file(path)) for path in files])


def changed(kept, files):
    """The rows that have changed, and those that were read to see it."""
    rows = []
    stamps = stamps_of(lambda row: stamp_of(files[row]), len(files))
    return find_changed(kept, stamps, lambda row: rows.append(row) or read_file(files[row])), rows


def test_an_identity_by_hand(files):
    status = os.stat(files[0])
    digest = hashlib.blake2b(b"aaaa", digest_size=16).digest()
    found = identity_of(stamp_of(files[0]), read_file(files[0]))
    assert found[:3].tolist() == [4, 1, status.st_ctime_ns]
    assert found[3:].tobytes() == digest


def test_a_missing_file_has_a_size_below_zero(tmp_path):
    assert stamp_of(tmp_path / "gone")[0] == -1


def test_a_file_with_another_time_is_read_once(files):
    kept = identities(files)
    assert changed(kept, files) == ([], [])
    os.utime(files[1], ns=(2, 2))
    assert changed(kept, files) == ([], [1])
    assert kept[:, 1].tolist() == [1, 2, 1, 1]
    assert changed(kept, files) == ([], [])


def test_bytes_that_are_written_in_place_with_the_old_time_are_found(files):
    kept = identities(files)
    files[2].write_text("cccd")
    os.utime(files[2], ns=(1, 1))
    assert changed(kept, files) == ([2], [2])


def test_two_files_that_swap_names_are_found(files):
    kept = identities(files)
    spare = files[0].with_name("spare")
    for old, new in ((files[0], spare), (files[3], files[0]), (spare, files[3])):
        old.rename(new)
    assert changed(kept, files)[0] == [0, 3]


def test_another_size_is_found_without_reading(files):
    kept = identities(files)
    files[3].write_text("ddddd")
    assert changed(kept, files) == ([3], [])


def test_what_could_not_be_read_is_read_again(files):
    kept = identities(files)
    kept[1] = identity_of(stamp_of(files[1]), None)  # as by permissions, which leave no time
    assert changed(kept, files) == ([1], [1])
    files[1].unlink()
    kept[1] = identity_of(stamp_of(files[1]), None)
    assert changed(kept, files) == ([], [1])
    files[0].unlink()
    assert changed(kept, files)[0] == [0]
    with pytest.raises(ImageReadError, match="cannot be opened"):
        read_file(files[0])
