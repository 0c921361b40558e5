"""Which errors are the user's to mend, and which are bugs."""

import traceback
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_MISTAKES = (ValueError, TypeError, RuntimeError)
_WORKER = "Caught "
"""How torch begins an error that it raises again for a loader's worker process."""


def message_for_user(error: BaseException) -> str | None:
    """Return the message that tells a user what to mend, or None if the error is a bug.

    A user's mistake is an error of the operating system (a missing file, no permission, a full
    disk), or one that a ``raise`` statement of this package made, even if a registry or a loader's
    worker wrapped it. The class alone would not do: a ValueError out of numpy, or a TypeError of a
    wrong call, is a bug.
    """
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, _MISTAKES) and str(error).startswith(_WORKER):
        return _message_of_worker(str(error), type(error).__name__)
    frames = traceback.extract_tb(error.__traceback__)
    if frames and isinstance(error, _MISTAKES):
        last = frames[-1]
        if _is_ours(last.filename) and (last.line or "").startswith("raise "):
            return str(error)
    inner = error.__cause__ or error.__context__
    if inner is not None and type(inner) is type(error) and str(inner) in str(error):
        return message_for_user(inner)
    return None


def _message_of_worker(text: str, kind: str) -> str | None:
    """Find the message in the traceback that torch hands on as text."""
    lines = text.rstrip().splitlines()
    files = [line.split('"')[1] for line in lines if line.startswith('  File "')]
    last, marker = lines[-1], f"{kind}: "
    if files and _is_ours(files[-1]) and last.startswith(marker):
        return last.removeprefix(marker)
    return None


def _is_ours(filename: str) -> bool:
    return Path(filename).resolve().is_relative_to(_PACKAGE)
