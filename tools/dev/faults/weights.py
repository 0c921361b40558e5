"""Hostile files of weights given to every reader, where a crash does no harm."""

import contextlib
import copy
import io
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path

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
from mmssprl.features import read_embeddings
from mmssprl.saving.work_dir import newest_intact
from mmssprl.weights import load_backbone

from .base import Answer, Apart, Log, Outcome, judge
from .hostile_files import write_files
from .training import write_config

LIMIT_S = 30.0  # time that one reader may take for one file, on a machine that does other things
LIMIT_MIB = 64  # memory that it may take beside what there is
_ADDRESSES = 4 * 2**30
"""Bytes that the process may reserve beside what it has, lest a fault fills the machine."""
SURVIVED = ("refused", "read")
"""Nothing happens: a line says what is wrong, or a reader of plain values has found some."""


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
    "load_backbone": lambda path: load_backbone(str(path), Config.fromfile(_CONFIG)),
    "load_from": lambda path: _use(CheckpointLoader.load_checkpoint(str(path), logger="silent")),
    "embeddings": _read_embeddings,
    "annotations": lambda path: _use(mmengine.load(str(path), file_format="pkl")),
}


def weights(log: Log) -> Outcome:
    """Give every file to every reader: each is to say what is wrong in one line, in its limits."""
    with tempfile.TemporaryDirectory() as folder:
        files = dict(write_files(Path(folder)))
        found = judge(answers(Path(folder), product(READERS, files.items())), SURVIVED, log)
    remark = (
        f"{len(files)} files, {len(READERS)} readers: {found.kinds['refused']} refused in one "
        f"line, {found.kinds['read']} read as plain values; {found.mib:,.0f} MiB more and "
        f"{found.seconds:.1f} s at most"
    )
    return found.outcome("hostile files of weights", remark)


def answers(
    folder: Path, tries: Iterable[tuple[str, tuple[str, Path]]]
) -> Iterator[tuple[str, Answer]]:
    """Give files, each with its name, to readers by name, in another process in ``folder``."""
    for index in range(8):
        path = folder / f"photos/{'ab'[index % 2]}/{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((32, 32, 3), index * 9, np.uint8)).save(path)
    write_config(folder, 1).rename(folder / "config.py")

    def prepare() -> None:
        os.chdir(folder)
        torch.set_num_threads(1)
        reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (reserved + _ADDRESSES,) * 2)

    with Apart(_answer, limit_s=LIMIT_S, limit_mib=LIMIT_MIB, prepare=prepare) as process:
        for reader, (file, path) in tries:
            yield f"{reader}: {file}", process.ask((reader, path))


def _answer(question: tuple[str, Path]) -> tuple[str, str]:
    reader, path = question
    try:
        READERS[reader](path)
    except UserError as error:
        line = str(error)
        return ("refused" if line.isprintable() else "not told in one line"), line
    except BaseException as error:  # whatever else comes of it
        return f"ends in {type(error).__name__}", str(error)[-300:]
    return "read", ""
