"""Which errors are the user's to mend, and which are bugs."""

import traceback
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_MISTAKES = (ValueError, TypeError, RuntimeError)


def is_users_mistake(error: BaseException) -> bool:
    """Tell whether an error's message is all that the user needs.

    So it is for errors of the operating system (a missing file, no permission, a full disk), and
    for those that a ``raise`` statement of this package made, even if a registry wrapped them. The
    class alone would not do: a ValueError out of numpy, or a TypeError of a wrong call, is a bug.
    """
    if isinstance(error, OSError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        ours = Path(last.filename).resolve().is_relative_to(_PACKAGE)
        if ours and (last.line or "").startswith("raise "):
            return isinstance(error, _MISTAKES)
    inner = error.__cause__ or error.__context__
    rewrapped = inner is not None and type(inner) is type(error) and str(inner) in str(error)
    return rewrapped and is_users_mistake(inner)  # type: ignore[arg-type]
