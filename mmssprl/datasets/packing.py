"""Write images into one packed file, go on where that was stopped, and verify it."""

import fcntl
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import lmdb

from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.pack_progress import Log, Progress
from mmssprl.datasets.pack_sources import read_values, refuse_unreadable
from mmssprl.datasets.packed_images import (
    CHECKSUM,
    COMPLETE,
    ENDS,
    HEADER,
    NAMES,
    Header,
    checked_image,
    image_key,
    is_packed,
    num_stored,
    open_packed,
    read_header,
    read_names,
)

from ..errors import UserOSError, UserRuntimeError, UserValueError

_COMMIT_IMAGES = 1024
_COMMIT_BYTES = 64 * 2**20
"""How much is written at a time; what was not is lost when packing is stopped."""

_FIRST_MAP_BYTES = 2**30
_MAX_NAMED = 10


@dataclass
class PackReport:
    """What a packed file holds.

    Args:
        num_images: Images that it should hold.
        num_stored: Images that it does hold.
        num_bytes: Bytes of these image files.
        is_complete: Whether it was marked as complete.
        num_empty: Images that were empty files already.
        num_bad: Images of another checksum, or that cannot be read.
        empty: Names of the first empty images.
        bad: Names of the first bad images.
    """

    num_images: int
    num_stored: int = 0
    num_bytes: int = 0
    is_complete: bool = False
    num_empty: int = 0
    num_bad: int = 0
    empty: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


def pack(folder: str, names: ImageNames, out: str, *, log: Log) -> PackReport | None:
    """Write images into one file, or go on where that was stopped, and mark it as complete.

    The file is usable only when it is marked, after all images were read again from it.

    Args:
        folder: What ``names`` are relative to.
        names: The images, in the order in which they are to be numbered.
        out: The file; made if it is missing.
        log: Takes lines of progress.

    Returns:
        What the file holds; None if it was complete already and nothing was done.

    Raises:
        ValueError: ``out`` is a file of other images, or no packed file.
        OSError: Another process packs into ``out``.
        PermissionError: Images may not be read, or are links to nothing; nothing was written.
        OSError: An image cannot be read, or the disk is full. What was written stays.
        RuntimeError: What was written reads back as something else.
    """
    header = _header(folder, names)
    _refuse_others(out, header)
    with _alone(out):
        with _open_for_writing(out) as env:
            with env.begin() as txn:
                if txn.get(COMPLETE) is not None:
                    return None
                start = num_stored(txn) if txn.get(HEADER) else None
            if start is None:
                refuse_unreadable(folder, names)
                values = [(HEADER, json.dumps(asdict(header)).encode())]
                values += [(NAMES, names.blob.tobytes())]
                values += [(ENDS, names.ends.astype("<i8").tobytes())]
                _commit(env, values, out)
            elif start:
                log(f"going on: {start:,} of {len(names):,} images are packed already")
            _pack_from(start or 0, folder, names, env, out, log)
        report = verify(out, log=log)
        if report.num_bad or report.num_stored != report.num_images:
            raise UserRuntimeError(
                f"{out}: what was written must read back the same, but {report.num_bad:,} of "
                f"{report.num_images:,} images do not, for example {report.bad[:3]}; delete it, "
                "check the disk, and pack again."
            )
        with _open_for_writing(out) as env:
            _commit(env, [(COMPLETE, b"")], out)
        report.is_complete = True
    return report


def verify(path: str, *, log: Log) -> PackReport:
    """Read all images of a packed file and compare their checksums.

    Args:
        path: The file, complete or not.
        log: Takes lines of progress.

    Raises:
        ValueError: It is no packed file, or cut off.
    """
    with open_packed(path) as env, env.begin(buffers=True) as txn:
        header = read_header(txn, path)
        names = read_names(txn)
        report = PackReport(header.num_images, is_complete=txn.get(COMPLETE) is not None)
        if len(names) != header.num_images or _digest(names) != header.names_digest:
            raise UserValueError(
                f"{path}: must hold the names it was begun with, but they are damaged; pack the "
                "images again."
            )
        report.num_stored = min(num_stored(txn), header.num_images)
        progress = Progress("verified", 0, report.num_stored, log)
        for index in range(report.num_stored):
            size = _verified_size(txn, index)
            if size is None:
                _note(report.bad, names[index])
                report.num_bad += 1
            elif size == 0:
                _note(report.empty, names[index])
                report.num_empty += 1
            report.num_bytes += size or 0
            progress.step(size or 0)
    return report


def _verified_size(txn: lmdb.Transaction, index: int) -> int | None:
    """Return the bytes of an image file, or None if they are not what was written."""
    try:
        value = txn.get(image_key(index))
    except lmdb.Error:
        return None
    data = None if value is None else checked_image(value)
    return None if data is None else len(data)


def _note(names: list[str], name: str) -> None:
    if len(names) < _MAX_NAMED:
        names.append(name)


def _header(folder: str, names: ImageNames) -> Header:
    digest = _digest(names)
    source = os.fsencode(os.path.realpath(folder)) + b"\0" + digest.encode()
    return Header(len(names), digest, hashlib.sha256(source).hexdigest())


def _digest(names: ImageNames) -> str:
    return hashlib.sha256(names.ends.astype("<i8").tobytes() + names.blob.tobytes()).hexdigest()


def _refuse_others(out: str, header: Header) -> None:
    """Look at a file that is there before anything is written to it."""
    if not os.path.lexists(out) or _is_unused(out):
        return
    if not is_packed(out):
        raise UserValueError(
            f"{out}: must be missing or a file of `python -m mmssprl pack`, but is something "
            "else; choose another name."
        )
    with open_packed(out) as env, env.begin() as txn:
        found = read_header(txn, out)
    if found != header:
        same_names = found.names_digest == header.names_digest
        raise UserValueError(
            f"{out}: must be missing or packed from the same list of the same folder, but was "
            f"begun with another {'folder' if same_names else 'list'} of {found.num_images:,} "
            f"images, now they are {header.num_images:,}; choose another name, or delete it."
        )


def _is_unused(out: str) -> bool:
    """Tell whether packing was stopped before the first commit: the file holds nothing."""
    if os.path.isfile(out) and not os.path.getsize(out):
        return True
    if not is_packed(out):
        return False
    try:
        with lmdb.open(out, subdir=False, readonly=True, lock=False) as env:
            return env.info()["last_txnid"] == 0
    except lmdb.Error:  # told of by open_packed
        return False


@contextmanager
def _alone(out: str) -> Iterator[None]:
    """Keep other processes from packing into the file at the same time."""
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserOSError(
                f"{out}: must be packed by one process, but another one packs into it; wait for "
                "it, or choose another name."
            ) from error
        yield


def _open_for_writing(out: str) -> lmdb.Environment:
    # LMDB's own lock would be a second file; _alone keeps others away. The map grows by _commit.
    return lmdb.open(out, subdir=False, lock=False, map_size=_FIRST_MAP_BYTES)


def _commit(env: lmdb.Environment, values: list[tuple[bytes, bytes]], out: str) -> None:
    """Write values, all or none."""
    while True:
        try:
            with env.begin(write=True) as txn:
                for key, value in values:
                    # Appended images fill their pages; inserted ones would leave half empty.
                    txn.put(key, value, append=key > NAMES)
            return
        except lmdb.MapFullError:
            env.set_mapsize(2 * env.info()["map_size"])
        except lmdb.Error as error:
            with env.begin() as txn:
                count = num_stored(txn)
            raise UserOSError(
                f"{out}: cannot be written ({error}), after {count:,} images; free space on the "
                "disk and run the same command again, it goes on."
            ) from error


def _pack_from(
    start: int, folder: str, names: ImageNames, env: lmdb.Environment, out: str, log: Log
) -> None:
    """Write the images from number ``start`` on."""
    progress = Progress("packed", start, len(names), log)
    paths = (os.path.join(folder, name) for name in itertools.islice(names, start, None))
    values: list[tuple[bytes, bytes]] = []
    num_bytes = 0
    for index, value in enumerate(read_values(paths), start):
        values.append((image_key(index), value))
        num_bytes += len(value)
        last = index == len(names) - 1
        if last or len(values) >= _COMMIT_IMAGES or num_bytes >= _COMMIT_BYTES:
            _commit(env, values, out)
            values, num_bytes = [], 0
        progress.step(len(value) - CHECKSUM.size)
