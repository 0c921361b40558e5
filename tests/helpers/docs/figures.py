"""Figures of pages that stand beside results, and the CSV files that they should follow from."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from helpers.docs.derived import Numbers
from helpers.package.checkout import ROOT

RESULTS = ROOT / "docs/results"
TESTED_AS_MADE = RESULTS / "deployed"
"""Its tables equal what its command makes of its CSV files: tests/docs/test_deployed.py."""
ALSO = {"distillation": ["photos", "deployed"]}
"""Folders with tables that have rows of others, too."""

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
FIGURE = re.compile(
    rf"(?<![\w.,/-])[+-]?(?P<mean>{NUMBER})(?: ± (?P<half>{NUMBER}))?(?![\w-]|[.,]\d)"
    rf"|± (?P<alone>{NUMBER})"
)
BOTH = re.compile(rf"(?P<one>{NUMBER}) / (?P<other>{NUMBER})")
"""Scores of two seeds, in a table."""
REST_OF_LIST = rf"(?:(?:,| to| and|, and) [+-]?(?:{NUMBER}))*"
UNITS = {
    "%": "means",
    "points?|times|hours|minutes": "listed",
    "s|seconds|CPU seconds": "seconds",
    "epochs?": "epochs",
    "px|GB|MB|MiB|M|ms|million|x": "none",
}
"""What a unit after a figure, or after the list that it is in, says of its kind."""
P_VALUE = re.compile(rf"\bp (?:=|is) (?:(?:{NUMBER})(?:,| and| to) )*$")
NO_RESULT = re.compile(r"95 % (?:t-)?intervals?")


@dataclass(frozen=True)
class Figure:
    """A figure of a page.

    Attributes:
        kind: An attribute of ``Numbers``, or 'listed' for what no rule derives.
        texts: The number, and the half-width of its interval, as they are written.
        span: Its place in the text of its block.
        around: The text around it.
    """

    kind: str
    texts: tuple[str, ...]
    span: tuple[int, int]
    around: str

    def is_in(self, numbers):
        """Whether it is one of these numbers, rounded as it is written."""
        decimals = tuple(len(text.partition(".")[2]) for text in self.texts)
        return tuple(text.replace(",", "") for text in self.texts) in written(
            numbers, self.kind, decimals
        )


@dataclass(frozen=True)
class Block:
    """A paragraph, bullet or table of a page, and the results that it names.

    Attributes:
        text: In one line, see ``clean``.
        sources: Folders and CSV files.
    """

    text: str
    sources: tuple[Path, ...]

    def unexplained(self, phrases):
        """Return its figures outside of these phrases that do not follow from its sources."""
        numbers = numbers_of(self.sources)
        found = [each for each in self.figures(phrases) if not each.is_in(numbers)]
        # Without sources only what is certainly a result: a mean with its interval.
        return [each for each in found if self.sources or each.kind == "pairs"]

    def figures(self, phrases=()):
        """Return its figures outside of these phrases."""
        text = self.text
        for phrase in phrases:
            text = text.replace(phrase, "#" * len(phrase))
        text = NO_RESULT.sub(lambda match: "#" * len(match[0]), text)

        found = []
        if text.startswith("|"):
            found = [
                Figure("both", match.groups(), match.span(), match[0])
                for match in BOTH.finditer(text)
            ]
            text = BOTH.sub(lambda match: "#" * len(match[0]), text)
        for match in FIGURE.finditer(text):
            kind = kind_of(match, text)
            if kind != "none":
                texts = [each for each in match.groups() if each is not None]
                around = text[max(0, match.start() - 60) : match.end() + 30]
                found.append(Figure(kind, tuple(texts), match.span(), around))
        return found


def kind_of(match, text):
    """Return the kind of a figure by what stands before and after it."""
    if match["alone"] or match["half"]:
        return "pairs"
    before = text[: match.start()]
    after = text[match.end() :]
    if P_VALUE.search(before):
        return "shares"
    if re.search(r"\brate $", before):
        return "rates"

    kind = "means" if "." in match["mean"] else "none"
    for unit, of_unit in UNITS.items():
        if re.match(rf"{REST_OF_LIST} ?(?:{unit})(?!\w)", after):
            kind = of_unit
    if kind == "means" and text.startswith("|"):
        return "shares" if len(match["mean"].partition(".")[2]) == 3 else "cells"
    return kind


@functools.cache
def written(numbers, kind, decimals):
    """Return all numbers of a kind as they are written with so many decimals."""
    if kind == "listed":
        chosen = []
    elif kind == "pairs" and len(decimals) == 1:
        chosen = [(half,) for _, half in numbers.pairs]
    elif kind in ("pairs", "both"):
        chosen = getattr(numbers, kind)
    else:
        chosen = [(value,) for value in numbers.of(kind)]

    found = set()
    for values in chosen:
        texts = [f"{abs(value):.{num}f}" for value, num in zip(values, decimals, strict=True)]
        found.add(tuple(texts))
    return found


@functools.cache
def numbers_of(sources):
    """Return the numbers of folders and CSV files."""
    found = Numbers()
    for source in sources:
        paths = [source] if source.is_file() else sorted(source.rglob("*.csv"))
        for path in paths:
            found.add(path)
    return found


def blocks(page):
    """Return the blocks of a page; of a page that a command wrote only the tables.

    Sources of a page of results are its folder and what the block links to, of other pages what
    the section links to.
    """
    is_of_results = RESULTS in page.parents
    is_made = is_of_results and page.name not in ("README.md", "archive.md")
    own = set()
    if is_of_results and page.parent != RESULTS:
        own = {RESULTS / page.relative_to(RESULTS).parts[0]}

    found = []
    if is_made and page.parent == TESTED_AS_MADE:
        return found
    for section in sections(page):
        for text in split(section):
            sources = own | named_sources(page, text if is_of_results else section)
            if text.startswith("|"):
                for source in sorted(sources):
                    sources |= {RESULTS / name for name in ALSO.get(source.name, [])}
            if text.startswith("|") or not is_made:
                found.append(Block(clean(text), tuple(sorted(sources))))
    return found


def sections(page):
    """Return the texts between the headings of a page, without the paper's numbers."""
    text = page.read_text()
    if "ours / paper" in text:
        text = re.sub(r" / [\d.]+(?= +\|)", "", text)
    found = re.split(r"^#+ (?=.*$)", text, flags=re.MULTILINE)
    return [each for each in found if "of the paper, not comparable" not in each]


def named_sources(page, text):
    """Return the folders and CSV files of results that a text links to or includes."""
    found = set()
    for target in re.findall(r"\]\(([^)#]+)|^```\{include\} (.*)$", text, flags=re.MULTILINE):
        path = (page.parent / (target[0] or target[1])).resolve()
        if RESULTS in path.parents and path.exists():
            folder = path.relative_to(RESULTS).parts[0].removesuffix(".md")
            found.add(path if path.suffix == ".csv" else RESULTS / folder)
    return found


def split(section):
    """Return paragraphs, bullets and tables; code, quotes and what is included are left out."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", section, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {4}|>).*$", "", text, flags=re.MULTILINE)
    return [each for each in re.split(r"\n\s*\n|^(?=[*-] )", text, flags=re.MULTILINE) if each]


def clean(text):
    """Return a text in one line, without code, formulas and the targets of links."""
    text = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", "`", text)
    return re.sub(r"\s+", " ", text.replace("*", "")).strip()
