"""What a check has found, the commands that mend it, and how both are shown."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..console.tables import markdown_table
from ..datasets.labels.files import missing_files

OK: Literal["OK"] = "OK"
MISSING: Literal["MISSING"] = "MISSING"
WRONG: Literal["WRONG"] = "WRONG"
MOVE_AWAY = "# move it away first\n"
"""Begin of the remedy of a file that is wrong: it may be the user's own."""


@dataclass(frozen=True)
class Archive:
    """A file that holds a part of a data set. Nothing is fetched here: commands are returned.

    Args:
        url: Its address, or only the file's name if fetching it needs an account.
        size: Its size as people write it, for example "13 GB".
        member: The folder within the archive whose content is wanted. Empty for everything.
    """

    url: str
    size: str
    member: str = ""

    def commands(self, folder: Path, *, keep_in: Path | None = None) -> str:
        """Return the commands that put what is missing into ``folder``, the archive in another."""
        name = self.url.rpartition("/")[2]
        target = shlex.quote(str(folder))
        file = shlex.quote(str((keep_in or folder) / name))
        fetch = f"curl -fL -C - -o {file} {self.url}  # {self.size}"
        if "://" not in self.url:
            fetch = f"# put {name} ({self.size}) here: {file}"
        unpack = f"tar -xf {file} -C {target} --skip-old-files"
        if name.endswith(".zip"):
            unpack = f"unzip -q -n {file} -d {target}"
        elif self.member:
            unpack += f" --strip-components={self.member.count('/') + 1} {self.member}"
        return f"mkdir -p {target}\n{fetch}\n{unpack}"


@dataclass(frozen=True)
class Finding:
    """One piece of a data set.

    Args:
        name: The file or folder, or what is measured on it.
        status: "OK", "MISSING", or "WRONG" if it is there and not as it must be.
        detail: What was found, on one line.
        remedy: Lines of shell that mend it, with comments behind "#". Empty if the status is OK.
    """

    name: str
    status: Literal["OK", "MISSING", "WRONG"]
    detail: str
    remedy: str = ""


def judge_count(
    name: str, count: int, official: int, what: str, any_size: bool, remedy: str
) -> Finding:
    """Compare the count of ``what``, such as "images", with the official one."""
    if count == official or (any_size and count):
        return Finding(name, OK, f"{count:,} {what}")
    hint = "# if it is meant to be another set, pass --any-size; if not, move it away and then:\n"
    detail = f"not the official set: {count:,} of {official:,} {what}"
    return Finding(name, WRONG, detail, hint + remedy)


def check_files(folder: Path, files: Sequence[str], remedy: str) -> Finding:
    """Find out whether all files, given by their names below ``folder``, are there."""
    name = f"{folder.name}/"
    if not folder.is_dir():
        return Finding(name, MISSING, f"no folder {folder}", remedy)
    missing = missing_files([f"{folder}/{file}" for file in files])
    if missing:
        first = missing[0].removeprefix(f"{folder}/")
        detail = f"{len(missing):,} of {len(files):,} files are not there, first {first}"
        return Finding(name, MISSING, detail, remedy)
    return Finding(name, OK, f"all {len(files):,} files are there")


def format_table(findings: Sequence[Finding]) -> str:
    """Return the findings as an aligned table, one on a line."""
    rows = [(item.name, item.status, item.detail) for item in findings]
    return markdown_table(("piece", "status", "found"), rows, num_left=3)


def format_remedies(findings: Sequence[Finding]) -> str:
    """Join the remedies, each once; a shell can run them."""
    return "\n\n".join(dict.fromkeys(item.remedy for item in findings if item.status != OK))
