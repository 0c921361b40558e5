import os
import threading
import time

import numpy as np
import pytest

from mmssprl.datasets import image_index
from mmssprl.datasets.image_index import index_images
from mmssprl.datasets.image_names import ImageNames


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An own cache folder, in which a list of two images is kept, however new its folders."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_index, "_MIN_CACHED_IMAGES", 2)
    monkeypatch.setattr(image_index, "time_ns", lambda: time.time_ns() + 10_000_000_000)
    return tmp_path / "cache" / "mmssprl" / "index"


@pytest.fixture
def searches(monkeypatch):
    """The folders that were searched."""
    seen, search = [], image_index._search
    monkeypatch.setattr(image_index, "_search", lambda path: seen.append(path) or search(path))
    return seen


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return str(root)


def found(folder):
    return list(index_images(folder).names)


# What is found


def test_names_are_sorted_as_whole_paths(tmp_path):
    # "-" comes before "/" and "/" before "0": the order of the folders alone would be another.
    wanted = ["a-b/1.jpg", "a/2.jpg", "a/b/3.jpg", "a/c.jpg", "a0.jpg", "b.JpG"]
    index = index_images(touch(tmp_path, *reversed(wanted), "a/notes.txt", ".b/4.jpg", "a/.5.jpg"))
    assert list(index.names) == wanted
    assert (index.num_others, index.unlisted) == (1, [])


def test_links_are_searched_once(tmp_path):
    touch(tmp_path / "away", "1.jpg")
    root = tmp_path / "root"
    folder = touch(root, "z/2.jpg")
    (root / "b").symlink_to(tmp_path / "away")
    (root / "c").symlink_to(tmp_path / "away")
    (root / "d.jpg").symlink_to(root / "z" / "2.jpg")
    (root / "round").symlink_to(root / "round")
    (root / "z" / "up").symlink_to(root)
    assert found(folder) == ["b/1.jpg", "d.jpg", "z/2.jpg"]


# What is kept


def test_second_search_is_answered_by_the_cache(tmp_path, cache, searches):
    folder = touch(tmp_path / "images", "a/1.jpg", "ä/2.jpg", os.fsdecode(b"\xff/3.jpg"))
    first = found(folder)
    assert len(first) == 3
    assert len(os.listdir(cache)) == 1
    (tmp_path / "link").symlink_to(folder)
    assert found(folder) == found(str(tmp_path / "link")) == found(f"{folder}/") == first
    assert searches == [folder]


def add(root):
    touch(root, "a/9.jpg")


def add_hidden_then_show(root):
    (root / "a/.8.jpg").rename(root / "a/8.jpg")


def remove(root):
    (root / "a/1.jpg").unlink()


def add_folder(root):
    touch(root, "a/deep/9.jpg")


def replace_folder(root):
    (root / "b").rename(root.parent / "old")
    touch(root, "b/7.jpg")


def add_as_rsync_does(root):
    before = os.stat(root / "a")
    touch(root, "a/9.jpg")
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))


def turn_link(root):
    (root / "link").unlink()
    (root / "link").symlink_to(root.parent / "second")


def turn_link_behind_link(root):
    (root.parent / "current").unlink()
    (root.parent / "current").symlink_to(root.parent / "second")


def add_behind_link(root):
    touch(root.parent / "first", "6.jpg")


@pytest.mark.parametrize(
    "change",
    [
        add,
        add_hidden_then_show,
        remove,
        add_folder,
        replace_folder,
        add_as_rsync_does,
        turn_link,
        turn_link_behind_link,
        add_behind_link,
    ],
)
def test_every_change_of_the_names_is_noticed(tmp_path, cache, searches, change):
    touch(tmp_path, "first/4.jpg", "second/5.jpg")
    (tmp_path / "current").symlink_to(tmp_path / "first")
    root = tmp_path / "images"
    folder = touch(root, "a/1.jpg", "a/.8.jpg", "b/2.jpg")
    (root / "link").symlink_to(tmp_path / "first")
    (root / "through").symlink_to(tmp_path / "current")
    before = found(folder)
    assert found(folder) == before
    assert searches == [folder]
    time.sleep(0.02)  # a tick of the clock of the file system
    change(root)
    after = found(folder)
    assert searches == [folder, folder]
    assert after != before
    assert after == list(image_index._search(folder)[0].names)
    assert found(folder) == after  # and the new list is kept
    assert len(searches) == 2 + 1  # the comparison above was the third


def test_folder_that_has_just_changed_is_not_kept(tmp_path, cache, monkeypatch):
    folder = touch(tmp_path / "images", "1.jpg", "2.jpg")
    monkeypatch.setattr(image_index, "time_ns", time.time_ns)
    found(folder)
    assert not cache.exists()
    # Nor one that changes while it is searched: its newest time is after the start.
    monkeypatch.setattr(image_index, "time_ns", lambda: time.time_ns() - 60_000_000_000)
    found(folder)
    assert not cache.exists()


def test_few_images_are_not_kept(tmp_path, cache):
    found(touch(tmp_path / "images", "1.jpg"))
    assert not cache.exists()


def test_folders_that_may_appear_later_are_not_kept(tmp_path, cache):
    folder = touch(tmp_path / "images", "1.jpg", "2.jpg")
    (tmp_path / "images" / "drive").symlink_to(tmp_path / "not_mounted")
    assert found(folder) == ["1.jpg", "2.jpg"]
    assert not cache.exists()
    touch(tmp_path / "not_mounted", "3.jpg")
    assert found(folder) == ["1.jpg", "2.jpg", "drive/3.jpg"]
    assert len(os.listdir(cache)) == 1


def test_a_folder_that_cannot_be_listed_is_not_kept(tmp_path, cache, monkeypatch):
    folder = touch(tmp_path / "images", "1.jpg", "2.jpg", "locked/3.jpg")
    scandir = os.scandir

    def refuse(path):
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    index = index_images(folder)
    assert list(index.names) == ["1.jpg", "2.jpg"]
    assert len(index.unlisted) == 1
    assert not cache.exists()


# A cache that is no use


def cut(path):
    path.write_bytes(path.read_bytes()[:-300])


def flip(path):
    data = bytearray(path.read_bytes())
    data[data.index(b"1.jpg2.jpg")] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def text(path):
    path.write_text("not ours")


def pickled(path):
    np.savez(path, header=np.array([{"a": 1}], dtype=object))


def of_another_folder(path):
    names = ImageNames.of(["x.jpg"])
    image_index._save(path, "/other", names, {})


def of_another_version(path):
    image_index._save(path, os.path.realpath(path.parents[3] / "images"), ImageNames.of(["x"]), {})
    with np.load(path) as file:
        arrays = dict(file)
    header = arrays["header"].tobytes().replace(b'"version": 1', b'"version": 0')
    np.savez(path, **{**arrays, "header": np.frombuffer(header, np.uint8)})


@pytest.mark.parametrize(
    "damage", [cut, flip, empty, text, pickled, of_another_folder, of_another_version]
)
def test_a_useless_cache_file_is_written_again(tmp_path, cache, searches, damage):
    folder = touch(tmp_path / "images", "1.jpg", "2.jpg")
    found(folder)
    (file,) = cache.iterdir()
    damage(file)
    for _ in range(2):
        assert found(folder) == ["1.jpg", "2.jpg"]
    assert searches == [folder, folder]
    assert list(cache.iterdir()) == [file]


@pytest.mark.parametrize("at", ["cache", "cache/mmssprl", "cache/mmssprl/index"])
def test_without_a_cache_folder_it_works_all_the_same(tmp_path, cache, at):
    touch(tmp_path, at)  # a file where a folder should be: root may write everywhere
    assert found(touch(tmp_path / "images", "1.jpg", "2.jpg")) == ["1.jpg", "2.jpg"]


def test_full_disk_leaves_no_half_written_file(tmp_path, cache, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    assert found(touch(tmp_path / "images", "1.jpg", "2.jpg")) == ["1.jpg", "2.jpg"]
    assert list(cache.iterdir()) == []


def test_cache_is_below_home_unless_the_variable_is_an_absolute_path(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        file = image_index._cache_file("/images")
        assert file.parent == tmp_path / "home" / ".cache" / "mmssprl" / "index"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert image_index._cache_file("/images").parent == tmp_path / "xdg" / "mmssprl" / "index"
    assert image_index._cache_file("/images") != image_index._cache_file("/image")


def test_ranks_that_start_together_leave_one_good_file(tmp_path, cache, searches):
    folder = touch(tmp_path / "images", "1.jpg", "2.jpg")
    threads = [threading.Thread(target=index_images, args=(folder,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    searches.clear()
    assert found(folder) == ["1.jpg", "2.jpg"]
    assert searches == []
    assert len(list(cache.iterdir())) == 1
