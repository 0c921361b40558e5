"""Pointers and files that are damaged between two starts."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .children import Child
from .kills import equal, load_state
from .outcome import Outcome, describe_lost
from .tiny import STEPS_PER_EPOCH, train, write_config

_EPOCHS = 4
_POINTERS = {
    "missing": None,
    "empty": b"",
    "cut in the path": b"/somewhere/ru",
    "cut in the name": b"/somewhere/run/epoch_3.p",
    "naming nothing": b"epoch_9.pth",
    "naming a folder": b".",
    "of another machine": b"/somewhere/else/epoch_3.pth",
    "holding garbage": b"\xff\x00\xfe",
    "ending in zeros": b"epoch_3.pth" + bytes(100),
}
"""What a pointer may hold; what is right in it names the third epoch."""


def pointers(log: Callable[[str], object]) -> Outcome:
    """Damage the pointer to the newest checkpoint."""

    def damage(folder: Path) -> Iterator[None]:
        for content in _POINTERS.values():
            (folder / "last_checkpoint").unlink(missing_ok=True)
            if content is not None:
                (folder / "last_checkpoint").write_bytes(content)
            yield

    return _damaged(f"pointer {', '.join(_POINTERS)}", damage, log)


def files(log: Callable[[str], object]) -> Outcome:
    """Damage the newest checkpoint: cut it, empty it, delete it, fill it with zeros."""

    def damage(folder: Path) -> Iterator[None]:
        path = folder / "epoch_3.pth"
        data = path.read_bytes()
        for content in (data[:-100], data[: len(data) // 2], b"", bytes(len(data)), None):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            yield

    return _damaged("newest file cut, halved, empty, zeros, missing", damage, log)


def flipped_bytes(log: Callable[[str], object], tries: int = 40) -> Outcome:
    """Flip 64 bytes in the newest checkpoint."""

    def damage(folder: Path) -> Iterator[None]:
        path = folder / "epoch_3.pth"
        data = path.read_bytes()
        draw = random.Random(0)
        for _ in range(tries):
            broken = bytearray(data)
            start = draw.randrange(len(data) - 64)
            for i in range(start, start + 64):
                broken[i] ^= draw.randrange(1, 256)
            path.write_bytes(broken)
            yield

    return _damaged("64 bytes of the newest file flipped", damage, log)


def _damaged(
    fault: str, damage: Callable[[Path], Iterator[None]], log: Callable[[str], object]
) -> Outcome:
    """Stop a run after three of four epochs, damage what it has left, and let it go on."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = write_config(folder, _EPOCHS)
        _finish(config, folder / "whole", folder)
        expected = _state(folder / "whole")
        (folder / "whole" / f"epoch_{_EPOCHS}.pth").unlink()
        (folder / "whole" / "last_checkpoint").write_text("epoch_3.pth")
        lost: list[int] = []
        survived = tries = 0
        shutil.copytree(folder / "whole", folder / "damaged")
        for _ in damage(folder / "damaged"):
            tries += 1
            shutil.rmtree(folder / "run", ignore_errors=True)
            shutil.copytree(folder / "damaged", folder / "run")
            begun_at = _finish(config, folder / "run", folder)
            survived += begun_at is not None and equal(_state(folder / "run"), expected)
            lost.append(3 * STEPS_PER_EPOCH - (begun_at or 0))
        log(f"{fault}: {survived} of {tries}")
        return Outcome(fault, tries, survived, describe_lost(lost), "end bit-equal")


def _finish(config: Path, work_dir: Path, folder: Path) -> int | None:
    """Let a run come to its end, and return where it went on from; None if it has failed."""
    child = Child(partial(train, config, work_dir), folder / "log.txt")
    return child.begun_at if child.wait() == 0 else None


def _state(work_dir: Path) -> dict:
    return load_state(work_dir / f"epoch_{_EPOCHS}.pth")
