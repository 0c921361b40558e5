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
        md5: The digest that torchvision knows. Empty if it knows none.
        member: The folder within the archive whose content is wanted. Empty for everything.
    """

    url: str
    size: str
    md5: str = ""
    member: str = ""

    @property
    def file_name(self) -> str:
        """The name of the file without its address."""
        return self.url.rsplit("/", 1)[-1]

    def commands(self, folder: Path, *, keep_in: Path | None = None, replace: bool = False) -> str:
        """Give the shell commands that put the content into a folder.

        Args:
            folder: Folder for the content.
            keep_in: Folder for the archive itself. None: ``folder`` too.
            replace: Whether files that are there already are damaged and must be replaced. They
                are kept otherwise.
        """
        target = shlex.quote(str(folder))
        file = shlex.quote(str((keep_in or folder) / self.file_name))
        lines = [f"mkdir -p {target}"]
        if "://" in self.url:
            lines.append(f"curl -fL -C - -o {file} {self.url}  # {self.size}")
        else:
            lines.append(f"# put {self.file_name} ({self.size}) here: {file}")
        if self.md5:
            lines.append(f"printf '%s  %s\\n' {self.md5} {file} | md5sum -c")
        if self.file_name.endswith(".zip"):
            lines.append(f"unzip -q {'-o' if replace else '-n'} {file} -d {target}")
        else:
            options = "" if replace else " --skip-old-files"
            if self.member:
                options += f" --strip-components={len(self.member.split('/'))} {self.member}"
            lines.append(f"tar -xf {file} -C {target}{options}")
        return "\n".join(lines)
