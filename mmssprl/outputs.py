"""Files that commands write."""

from pathlib import Path

from .errors import UserFileExistsError


def prepare_output(path: str | Path, *, force: bool = False) -> None:
    """Make the folder of ``path`` and refuse to replace a file, before any work is done.

    Raises:
        FileExistsError: ``path`` is there and ``force`` is not given, or it is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise UserFileExistsError(f"the output must be a file, but {path} is a folder.")
    if path.exists() and not force:
        raise UserFileExistsError(
            f"the output must not exist yet, but {path} does; pass --force to replace it, "
            "or choose another name."
        )
    path.parent.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there completely or not at all, whatever stops the process."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)
