import multiprocessing
import os
import resource
import signal
import zlib

import lmdb
import numpy as np
import pytest
from image_folders import build, flip, folder

from mmssprl.datasets import pack_progress, pack_sources, packed_images, packing
from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.packed_images import PackedImages, num_stored
from mmssprl.datasets.packing import pack, verify


@pytest.fixture(autouse=True)
def small_commits(monkeypatch):
    monkeypatch.setattr(packing, "_COMMIT_IMAGES", 4)
    monkeypatch.setattr(pack_sources, "_BLOCK_IMAGES", 3)


def write_files(root, num_files, num_bytes=2000):
    """Files that are no images, which packing need not know."""
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(num_files):
        (root / f"{i:02}.jpg").write_bytes(rng.bytes(num_bytes))
    return root


def pack_folder(root, out, log=lambda line: None):
    return pack(str(root), build(root).names, str(out), log=log)


def stored(out):
    with lmdb.open(str(out), subdir=False, readonly=True, lock=False) as env, env.begin() as txn:
        return num_stored(txn)


@pytest.fixture(autouse=True)
def close_files():
    yield
    for path in list(packed_images._environments):
        packed_images._close(path)


def same_bytes(root, out):
    packed = PackedImages(str(out))
    names = list(packed.names())
    assert names == sorted(os.listdir(root))
    return all(packed.read(i, "").tobytes() == (root / n).read_bytes() for i, n in enumerate(names))


# Writing


def test_report_and_what_is_in_the_file(tmp_path):
    root = write_files(tmp_path / "images", 10)
    (root / "03.jpg").write_bytes(b"")
    report = pack_folder(root, tmp_path / "new" / "out.lmdb")
    assert (report.num_images, report.num_stored, report.num_bytes) == (10, 10, 18_000)
    assert (report.num_empty, report.empty) == (1, ["03.jpg"])
    assert (report.num_bad, report.bad, report.is_complete) == (0, [], True)
    assert same_bytes(root, tmp_path / "new" / "out.lmdb")
    assert os.listdir(tmp_path / "new") == ["out.lmdb"]
    out = str(tmp_path / "new" / "out.lmdb")
    packed_images._close(out)
    with lmdb.open(out, subdir=False, lock=False) as env, env.begin() as txn:
        value = txn.get(b"image0000000009")
    data = (root / "09.jpg").read_bytes()
    assert value == zlib.crc32(data).to_bytes(4, "little") + data


def test_names_keep_their_order_and_may_be_absolute(tmp_path):
    root = write_files(tmp_path / "images", 3)
    names = ImageNames.of(["02.jpg", str(root / "00.jpg"), "02.jpg"])
    pack(str(root), names, str(tmp_path / "out.lmdb"), log=lambda line: None)
    packed = PackedImages(str(tmp_path / "out.lmdb"))
    files = [root / name for name in ("02.jpg", "00.jpg", "02.jpg")]
    assert [packed.read(i, "").tobytes() for i in range(3)] == [f.read_bytes() for f in files]
    dataset = build(tmp_path / "out.lmdb")
    assert dataset.get_data_info(1)["img_path"] == f"{tmp_path}/out.lmdb/{root}/00.jpg"


def test_the_map_grows_with_the_images(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_FIRST_MAP_BYTES", 2**18)
    root = write_files(tmp_path / "images", 20, num_bytes=150_000)
    pack_folder(root, tmp_path / "out.lmdb")
    assert same_bytes(root, tmp_path / "out.lmdb")
    # No more than a page for each image, the checksums and keys.
    assert os.path.getsize(tmp_path / "out.lmdb") < 20 * (150_000 + 4096) + 20 * 4096


def test_few_bytes_are_left_unused_by_small_images(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_COMMIT_IMAGES", 1024)
    root = write_files(tmp_path / "images", 1000, num_bytes=500)
    pack_folder(root, tmp_path / "out.lmdb")
    assert os.path.getsize(tmp_path / "out.lmdb") < 1.35 * 1000 * 500


def test_many_bytes_are_committed_before_many_images(tmp_path, monkeypatch):
    root = write_files(tmp_path / "images", 10, num_bytes=1000)
    monkeypatch.setattr(packing, "_COMMIT_IMAGES", 1000)
    monkeypatch.setattr(packing, "_COMMIT_BYTES", 2500)
    sizes, commit = [], packing._commit
    monkeypatch.setattr(
        packing,
        "_commit",
        lambda env, values, out: sizes.append(len(values)) or commit(env, values, out),
    )
    pack_folder(root, tmp_path / "out.lmdb")
    assert sizes == [3, 3, 3, 3, 1, 1]  # header, names and ends; images; the mark


def test_progress_is_told_with_speed_and_what_is_left(tmp_path, monkeypatch):
    root = write_files(tmp_path / "images", 10, num_bytes=2**21)
    clock = iter(range(0, 100_000, 2))
    monkeypatch.setattr(pack_progress, "monotonic", lambda: next(clock))
    lines = []
    pack_folder(root, tmp_path / "out.lmdb", log=lines.append)
    assert lines[0] == "packed 3 of 10 images, 0 images/s, 1 MiB/s, 0 min 14 s left"
    assert lines[2:4] == [
        "packed 9 of 10 images, 0 images/s, 1 MiB/s, 0 min 02 s left",
        "packed 10 of 10 images, 0 images/s, 1 MiB/s, 0 min 00 s left",
    ]
    assert lines[-1].startswith("verified 10 of 10 images")


def test_durations():
    assert pack_progress._duration(59.6) == "1 min 00 s"
    assert pack_progress._duration(3 * 3600 + 62) == "3 h 01 min"


# Stopping and going on


def fork(work):
    """Run in another process, so that this one may be killed; returns the exit code."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(timeout=60)
    return process.exitcode


@pytest.fixture
def reads(monkeypatch):
    """The files that packing reads."""
    seen, read = [], pack_sources._value
    monkeypatch.setattr(
        pack_sources, "_value", lambda path: seen.append(os.path.basename(path)) or read(path)
    )
    return seen


def test_a_killed_pack_goes_on(tmp_path, monkeypatch, reads):
    root, out = write_files(tmp_path / "images", 20), tmp_path / "out.lmdb"
    commit, commits = packing._commit, []

    def kill(env, values, out):
        commits.append(values)
        if len(commits) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(env, values, out)

    with monkeypatch.context() as patch:
        patch.setattr(packing, "_commit", kill)
        assert fork(lambda: pack_folder(root, out)) == -signal.SIGKILL
    assert stored(out) == 8
    with pytest.raises(ValueError, match="holds 8 of 20 images"):
        PackedImages(str(out))
    lines = []
    report = pack_folder(root, out, log=lines.append)
    assert lines[0] == "going on: 8 of 20 images are packed already"
    assert sorted(reads) == [f"{i:02}.jpg" for i in range(8, 20)]
    assert report.num_stored == 20
    assert same_bytes(root, out)


def test_control_c_leaves_a_file_that_goes_on(tmp_path, monkeypatch):
    root, out = write_files(tmp_path / "images", 20), tmp_path / "out.lmdb"
    read = pack_sources._value

    def interrupt(path):
        if path.endswith("10.jpg"):
            raise KeyboardInterrupt
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(pack_sources, "_value", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pack_folder(root, out)
    assert stored(out) == 8
    pack_folder(root, out)
    assert same_bytes(root, out)


@pytest.mark.parametrize("size", [0, 20_000])
def test_killed_at_the_very_beginning(tmp_path, monkeypatch, size):
    # Before the first commit: the file is empty, or LMDB has written its first two pages.
    root, out = write_files(tmp_path / "images", 5), tmp_path / "out.lmdb"
    out.touch()
    if size:
        lmdb.open(str(out), subdir=False, lock=False).close()
        assert out.stat().st_size > 0
    pack_folder(root, out)
    assert same_bytes(root, out)


def test_full_disk_is_one_error_and_goes_on(tmp_path):
    root, out = write_files(tmp_path / "images", 30, num_bytes=50_000), tmp_path / "out.lmdb"
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))
        try:
            pack_folder(root, out)
        except OSError as error:
            sender.send(str(error))

    assert fork(work) == 0
    message = receiver.recv()
    assert message.startswith(f"{out}: cannot be written (")
    assert "after 12 images; free space on the disk and run the same command again" in message
    assert stored(out) == 12
    pack_folder(root, out)
    assert same_bytes(root, out)


def test_unreadable_images_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_sources, "_BLOCK_NAMES", 3)
    root, out = write_files(tmp_path / "images", 10), tmp_path / "out.lmdb"
    for name in ("03.jpg", "08.jpg"):
        (root / name).unlink()
        (root / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(PermissionError, match="2 of 10 are not, .* for example .*03.jpg; mend or"):
        pack_folder(root, out)
    for name in ("03.jpg", "08.jpg"):
        (root / name).unlink()
    pack_folder(root, out)  # another list by now
    assert stored(out) == 8


def test_image_that_goes_away_stops_packing_until_it_is_back(tmp_path, monkeypatch):
    root, out = write_files(tmp_path / "images", 10), tmp_path / "out.lmdb"
    names = build(root).names
    (root / "06.jpg").rename(root / "away")
    monkeypatch.setattr(pack_sources, "_unreadable", lambda paths: [])
    with pytest.raises(OSError, match="06.jpg: must be readable, but No such file .* it goes on"):
        pack(str(root), names, str(out), log=lambda line: None)
    (root / "away").rename(root / "06.jpg")
    pack_folder(root, out)
    assert same_bytes(root, out)


def test_killed_between_the_last_image_and_the_mark(tmp_path, monkeypatch, reads):
    root, out = write_files(tmp_path / "images", 8), tmp_path / "out.lmdb"

    def stop(path, log):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing, "verify", stop)
        with pytest.raises(KeyboardInterrupt):
            pack_folder(root, out)
    with pytest.raises(ValueError, match="holds 8 of 8 images or was not checked yet"):
        PackedImages(str(out))
    reads.clear()
    assert pack_folder(root, out).is_complete
    assert reads == []
    assert same_bytes(root, out)


def test_a_complete_file_is_left_alone(tmp_path, reads):
    root, out = write_files(tmp_path / "images", 6), tmp_path / "out.lmdb"
    pack_folder(root, out)
    before = out.read_bytes()
    reads.clear()
    assert pack_folder(root, out) is None
    assert reads == []
    assert out.read_bytes() == before


# Refusals


def test_another_list_or_folder_is_refused(tmp_path):
    root, out = write_files(tmp_path / "images", 6), tmp_path / "out.lmdb"
    pack_folder(root, out)
    before = out.read_bytes()
    write_files(tmp_path / "copy", 6)
    with pytest.raises(ValueError, match="begun with another folder of 6 images, now they are 6"):
        pack_folder(tmp_path / "copy", out)
    write_files(root, 7)
    with pytest.raises(ValueError, match="begun with another list of 6 images, now they are 7"):
        pack_folder(root, out)
    assert out.read_bytes() == before


def text(path):
    path.write_text("a diary" * 100)


def foreign(path):
    with lmdb.open(str(path), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")


def of_folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (text, "must be missing or a file of .* but is something else; choose another name"),
        (foreign, "must be a file of .* but holds something else"),
        (of_folder, "must be missing or a file of .* but is something else"),
    ],
)
def test_something_else_is_not_touched(tmp_path, make, message):
    out = tmp_path / "out.lmdb"
    make(out)
    before = out.read_bytes() if out.is_file() else os.listdir(out)
    with pytest.raises(ValueError, match=message):
        pack_folder(write_files(tmp_path / "images", 2), out)
    assert (out.read_bytes() if out.is_file() else os.listdir(out)) == before


def test_two_processes_do_not_pack_into_one_file(tmp_path):
    root, out = write_files(tmp_path / "images", 2), tmp_path / "out.lmdb"
    message = "by one process, but another one packs into it"
    with packing._alone(str(out)), pytest.raises(OSError, match=message):
        pack_folder(root, out)
    assert pack_folder(root, out).is_complete


# Verifying


def test_a_flipped_bit_is_found_and_named(tmp_path):
    root, out = write_files(tmp_path / "images", 9), tmp_path / "out.lmdb"
    pack_folder(root, out)
    for name in ("02.jpg", "07.jpg"):
        flip(out, (root / name).read_bytes()[500:600])
    report = verify(str(out), log=lambda line: None)
    assert (report.num_bad, report.bad) == (2, ["02.jpg", "07.jpg"])
    assert (report.num_stored, report.num_bytes, report.is_complete) == (9, 7 * 2000, True)


def test_only_the_first_bad_images_are_named(tmp_path, monkeypatch):
    root, out = write_files(tmp_path / "images", 5), tmp_path / "out.lmdb"
    pack_folder(root, out)
    monkeypatch.setattr(packing, "_MAX_NAMED", 2)
    monkeypatch.setattr(packed_images.zlib, "crc32", lambda data: -1)
    report = verify(str(out), log=lambda line: None)
    assert (report.num_bad, report.bad) == (5, ["00.jpg", "01.jpg"])


def test_damaged_names_are_found(tmp_path):
    out = tmp_path / "out.lmdb"
    pack_folder(write_files(tmp_path / "images", 3), out)
    flip(out, b"00.jpg01.jpg")
    with pytest.raises(ValueError, match="the names it was begun with, but they are damaged"):
        verify(str(out), log=lambda line: None)


def test_what_reads_back_otherwise_is_not_marked_as_complete(tmp_path, monkeypatch):
    root, out = write_files(tmp_path / "images", 5), tmp_path / "out.lmdb"
    read = pack_sources._value

    def garble(path):
        value = read(path)
        return value[:-1] + b"x" if path.endswith("01.jpg") else value

    monkeypatch.setattr(pack_sources, "_value", garble)
    with pytest.raises(RuntimeError, match=r"but 1 of 5 images do not, .*\['01.jpg'\]; delete it"):
        pack_folder(root, out)
    with pytest.raises(ValueError, match="holds 5 of 5 images or was not checked"):
        PackedImages(str(out))


def test_images_of_a_folder_survive_the_way_into_the_file(tmp_path):
    root = folder(tmp_path / "images", 4)
    pack_folder(root, tmp_path / "out.lmdb")
    assert [int(build(tmp_path / "out.lmdb").load_image(i)[1, 0, 0]) for i in range(4)] == [
        0,
        1,
        2,
        3,
    ]
    assert packed_images.is_packed(str(tmp_path / "out.lmdb"))
