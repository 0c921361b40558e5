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

    def commands(self, folder: Path, *, keep_in: Path | None = None, replace: bool = False) -> str:
        """Give the shell commands that put the content into a folder.

        Args:
            folder: Folder for the content.
            keep_in: Folder for the archive itself. None: ``folder`` too.
            replace: Whether files that are there already are damaged and must be replaced. They
                are kept otherwise.
        """
        name = self.url.rpartition("/")[2]
        target = shlex.quote(str(folder))
        file = shlex.quote(str((keep_in or folder) / name))
        fetch = f"curl -fL -C - -o {file} {self.url}  # {self.size}"
        if "://" not in self.url:
            fetch = f"# put {name} ({self.size}) here: {file}"
        if name.endswith(".zip"):
            unpack = f"unzip -q {'-o' if replace else '-n'} {file} -d {target}"
        else:
            unpack = f"tar -xf {file} -C {target}" + ("" if replace else " --skip-old-files")
            if self.member:
                unpack += f" --strip-components={self.member.count('/') + 1} {self.member}"
        return f"mkdir -p {target}\n{fetch}\n{unpack}"
