"""Official archives, and the shell commands that fetch and unpack them. Nothing is fetched here."""

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archive:
    """A file that holds a part of a data set.

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
