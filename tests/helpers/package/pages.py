"""The code blocks of a Markdown page."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run by tests: (?P<reason>[^>]+) -->\n\Z")


@dataclass(frozen=True)
class Block:
    """One block.

    Args:
        language: bash, python, text, or a directive such as {eval-rst}.
        text: What stands in it.
        line: Of the page, from 1.
        reason: Why no test runs it; None if one does.
    """

    language: str
    text: str
    line: int
    reason: str | None

    def commands(self):
        """Yield the words of each shell command, without comments."""
        for line in self.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        reason = _NOT_RUN.search(before)
        found.append(
            Block(match[1], match[2], before.count("\n") + 1, reason["reason"] if reason else None)
        )
    return found
