"""Hostile files of weights given to every reader, where a crash does no harm."""

import contextlib
import copy
import io
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import mmengine
import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner.checkpoint import CheckpointLoader
from PIL import Image

from mmssprl import cli
from mmssprl.config.shipped import shipped
from mmssprl.engine.launch import prepare_train_config
from mmssprl.errors import UserError
from mmssprl.features.formats import read_embeddings
from mmssprl.saving.newest_checkpoint import newest_intact
from mmssprl.weights import load_backbone

from .hostile_files import write_files
from .outcome import Outcome
from .tiny import write_config

LIMIT_S = 30.0
"""Time that one reader may take for one file, on a machine that does other things."""
LIMIT_MIB = 64
"""Memory that it may take beside what there is."""
_ADDRESSES = 4 * 2**30
"""Bytes that the process may reserve beside what it has, lest a fault fills the machine."""
SURVIVED = ("refused", "read")
"""Nothing happens: a line says what is wrong, or a reader of plain values has found some."""


class Answer(NamedTuple):
    """What came of one file and one reader: how it ended, with peak memory and time."""

    kind: str
    reader: str
    file: str
    line: str
    mib: float
    seconds: float


def _command(*words: str) -> Callable[[Path], None]:
    """Return a reader that runs a command, with the file in the place of FILE."""

    def read(path: Path) -> None:
        lines = io.StringIO()
        with contextlib.redirect_stderr(lines), contextlib.redirect_stdout(io.StringIO()):
            status = cli.main([str(path) if each == "FILE" else each for each in words])
        if status != 2 or path.name not in lines.getvalue():
            raise RuntimeError(f"ends with {status}: {lines.getvalue()}")
        raise UserError(lines.getvalue().rstrip("\n"))

    return read


def _resume(path: Path) -> None:
    prepare_train_config("config.py", work_dir="run", resume=str(path))


def _resume_newest(path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="."))
    shutil.copy(path, folder / "epoch_1.pth")
    newest_intact(folder)


def _read_embeddings(path: Path) -> None:
    shutil.copy(path, "embeddings.npz")
    read_embeddings("embeddings.npz")


def _use(content: object) -> None:
    """Copy and show all that a file holds, in whose place something harmless may be."""
    repr(copy.deepcopy(content))


_CONFIG = str(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))


@lru_cache
def _config() -> Config:
    return Config.fromfile(_CONFIG)


READERS: dict[str, Callable[[Path], object]] = {
    "export": _command("export", "FILE", "--to", "safetensors", "--out", "o.safetensors"),
    "convert": _command("convert", "FILE", "--from", "auto", "--out", "o.pth"),
    "embed": _command("embed", "FILE", "photos", "o.npz"),
    "probe": _command("probe", "FILE", "photos"),
    "neighbors": _command("neighbors", "FILE", "photos/a/0.png", "photos"),
    "finetune": _command("finetune", "FILE", "photos", "--task", "classify"),
    "train --weights": _command("train", _CONFIG, "--weights", "FILE", "--work-dir", "new"),
    "pretrain --weights": _command("pretrain", "photos", "--weights", "FILE", "--work-dir", "new"),
    "train --resume": _resume,
    "newest checkpoint": _resume_newest,
    "load_backbone": lambda path: load_backbone(str(path), _config()),
    "load_from": lambda path: _use(CheckpointLoader.load_checkpoint(str(path), logger="silent")),
    "embeddings": _read_embeddings,
    "annotations": lambda path: _use(mmengine.load(str(path), file_format="pkl")),
}


def weights(log: Callable[[str], object]) -> Outcome:
    """Give every file to every reader: each is to say what is wrong in one line.

    A signal, a time or a memory above the limits, another error and more than a line are not
    survived.
    """
    found: Counter[str] = Counter()
    peak = seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = dict(write_files(Path(folder)))
        for answer in answers(Path(folder), product(READERS, files.items())):
            found[answer.kind] += 1
            peak, seconds = max(peak, answer.mib), max(seconds, answer.seconds)
            if answer.kind not in SURVIVED:
                log(f"{answer.reader}: {answer.file}: {answer.kind} {answer.line}")
    tries, survived = sum(found.values()), sum(found[each] for each in SURVIVED)
    remark = (
        f"{len(files)} files, {len(READERS)} readers: {found['refused']} refused in one line, "
        f"{found['read']} read as plain values; {peak:,.0f} MiB more and {seconds:.1f} s at most"
    )
    return Outcome("hostile files of weights", tries, survived, "0", remark)


def answers(folder: Path, tries: Iterable[tuple[str, tuple[str, Path]]]) -> Iterator[Answer]:
    """Give files to readers in another process, and in a new one after each that ends it.

    Args:
        folder: Where the process works.
        tries: Name of a reader, and name and path of a file.
    """
    for index in range(8):
        path = folder / f"photos/{'ab'[index % 2]}/{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((32, 32, 3), index * 9, np.uint8)).save(path)
    write_config(folder, 1).rename(folder / "config.py")
    fork = multiprocessing.get_context("fork")
    child = None
    for reader, (file, path) in tries:
        if child is None:
            ours, theirs = fork.Pipe()
            child = fork.Process(target=_answer_all, args=(theirs, folder), daemon=True)
            child.start()
            theirs.close()
        try:
            ours.send((reader, path))
            answer = ours.recv() if ours.poll(LIMIT_S) else ("hangs", "", 0.0, LIMIT_S)
        except (EOFError, ConnectionError):
            child.join()
            answer = (f"ends the process by {child.exitcode}", "", 0.0, 0.0)
        if answer[0].startswith(("ends the process", "hangs", "takes")):
            child.kill()
            child.join()
            child = None
        yield Answer(answer[0], reader, file, *answer[1:])
    if child is not None:
        child.kill()
        child.join()


def _answer_all(work: Connection, folder: Path) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + _ADDRESSES,) * 2)
    while True:
        reader, path = work.recv()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = peak_mib(), time.monotonic()
        line = ""
        try:
            READERS[reader](path)
            kind = "read"
        except UserError as error:
            line = str(error)
            kind = "refused" if line.isprintable() else "not told in one line"
        except BaseException as error:  # whatever else comes of it
            kind, line = f"ends in {type(error).__name__}", str(error)[-300:]
        mib = peak_mib() - before
        kind = "takes too much memory" if mib > LIMIT_MIB else kind
        work.send((kind, line, mib, time.monotonic() - start))


def peak_mib() -> float:
    """Return the peak of this process's memory since it was cleared."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
