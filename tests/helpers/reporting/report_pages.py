"""A page of `report` as a browser understands it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "img", "br"}


@dataclass
class Page(HTMLParser):
    """Name and attributes of each element, texts by section or header, and lines to be pasted."""

    path: Path
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()
        self._open = []
        self._place = "head"
        self.feed(self.path.read_text())
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
        if tag in ("section", "header"):
            self._place = dict(attrs).get("id", tag)
        if tag == "pre":
            self.commands.append("")

    def handle_endtag(self, tag):
        if "pre" not in self._open:
            self.handle_data(" ")  # cells of a row stand apart
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "pre" in self._open:
            self.commands[-1] += data
        if "style" not in self._open:
            self.texts[self._place] = self.texts.get(self._place, "") + data

    def text(self, section):
        return " ".join(self.texts[section].split())

    def sections(self):
        return [name for name in self.texts if name not in ("head", "header")]

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]
