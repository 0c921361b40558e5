"""Errors as one line for the user."""

from ..errors import UserError, text_of
from .wording import printable


def message_for_user(error: BaseException) -> str | None:
    """Return the message for the user, or None if the error is a bug.

    A user's mistake is a ``UserError``, even inside the error of a registry or a loader's worker,
    or an error of the operating system.
    """
    if not isinstance(error, UserError | OSError):
        return None
    text, inner = text_of(error), error.__cause__ or error.__context__
    is_placed = isinstance(error, UserError) and error.is_placed
    if isinstance(inner, UserError) and str(inner) in text and not is_placed:
        return message_for_user(inner)
    return printable(text)
