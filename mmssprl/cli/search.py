"""Find images by their features: `neighbors` and `select`."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..console.options import argument, option, optional
from ..console.paths import PICTURES, check_embeddings, check_images
from ..console.tables import csv_table, markdown_table
from ..console.wording import counted
from ..errors import UserValueError
from ..system.outputs import prepare_output, write_figure, write_whole
from ._command import IMAGES, OfWeights, Overwriting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 200
_Found = tuple[list[str], list[list[str]], str, Callable[[], "Figure"]]


class _Search(Overwriting):
    out: str | None = optional(
        "file to write: the table (.csv), or a sheet of the images (.png, .pdf, ...)"
    )

    @abstractmethod
    def find(self) -> _Found:
        """Return the heads and lines of the table, a summary, and what draws the sheet."""

    def run(self) -> None:
        """Print the first lines of the table and its summary, and write --out."""
        out = self.out and prepare_output(self.out, ".csv", *PICTURES, overwrite=self.overwrite)
        heads, lines, summary, draw = self.find()
        if lines:
            num_left = heads.index("cosine") - 1  # the text columns come before the rank
            print("\n" + markdown_table(heads, lines[:_MOST_LINES], num_left=num_left))
        if len(lines) > _MOST_LINES:
            print(f"... and {len(lines) - _MOST_LINES:,} more; --out FILE.csv writes all.")
        print(f"\n{summary}")
        if out and _is_table(out):
            write_whole(out, csv_table(heads, lines))
            print(f"table: {out}")
        elif out and lines:
            write_figure(out, draw())
            print(f"picture: {out}")
        elif out:
            print("picture: none, as there is nothing to draw")


def _is_table(out: str | Path) -> bool:
    return str(out).lower().endswith(".csv")


class NeighborsCommand(OfWeights, _Search):
    """Find the nearest photographs to some photographs.

    Compare QUERY, an image or a folder, with all IMAGES by the cosine similarity of their
    features, and print a table.

    examples:
      python -m mmssprl neighbors backbone.pth photo.jpg photos/ --out rows.png
      python -m mmssprl neighbors backbone.pth some/ photos/ --embeddings photos.npz --num 5
    """

    query: str = argument("an image or a folder of images", check_images)
    images: str = argument(IMAGES, check_images)
    num: int = option("neighbours per query", default=8)
    embeddings: str | None = option(
        "file that `embed` wrote for IMAGES with these weights",
        chosen="computed",
        check=check_embeddings,
    )

    def find(self) -> _Found:
        """Find the neighbours."""
        from ..features.extract import Images
        from ..search.contact_sheet import draw_neighbors
        from ..search.neighbor_search import neighbors
        from ..weights import find_config

        found = neighbors(
            *(self.weights, self.query, self.images),
            num=self.num,
            embeddings=self.embeddings,
            config=self.config,
            image_px=self.image_px,
        )
        heads = ["query", "nearest", "rank", "cosine"]
        lines = [[each.query, each.nearest, str(each.rank), f"{each.cosine:.4f}"] for each in found]
        queries = counted(len({each.query for each in found}), "image")

        def draw() -> "Figure":
            cfg = find_config(self.weights, self.config)
            return draw_neighbors(found, *(Images(x, like=cfg) for x in (self.query, self.images)))

        return heads, lines, f"{counted(len(lines), 'neighbour')} of {queries}", draw


class SelectCommand(_Search):
    """Choose images to label, to look at or to delete.

    Choose among images by the features that `embed` wrote. diverse: images far from each
    other (greedy k-center), to label next. typical: the densest image of each of --num
    clusters (TypiClust). outliers: images far from all others. duplicates: groups of
    near-identical images. No image is changed or deleted.

    examples:
      python -m mmssprl select photos.npz --num 500 --out next.csv
      python -m mmssprl select photos.npz --method duplicates --out duplicates.png
    """

    embeddings: str = argument("file that `embed` wrote", check_embeddings)
    num: int | None = option(
        "images to choose", chosen="100, at most half of the images; for duplicates all groups"
    )
    method: Literal["diverse", "typical", "outliers", "duplicates"] = option(
        "how to choose", default="diverse"
    )
    images: str | None = optional(
        "folder or tar file, if they have moved since `embed`", check_images
    )

    def find(self) -> _Found:
        """Choose the images."""
        from ..features.extract import Images
        from ..search import read_embeddings, select
        from ..search.contact_sheet import draw_selected
        from ..search.selection import hardly_differ

        known = read_embeddings(self.embeddings)
        is_drawn = self.out and not _is_table(self.out)
        images: Any = None
        if is_drawn:
            source = self.images or known.about.get("images")
            if source is None:
                raise UserValueError(
                    f"{self.embeddings} does not say where its images are; give --images FOLDER."
                )
            images = Images(source, "images (--images)", known.about.get("pixels"))
            known.require_unchanged(images)
        found = select(known, num=self.num, method=self.method)
        heads = ["image", "rank", "cosine"]
        summary = f"{len(found):,} of {len(known):,} images"
        if self.method == "duplicates":
            heads = ["image", "group", "cosine", "keep"]
            kept = sum(each.keep for each in found)
            gone = f"{len(found):,} images, of which {len(found) - kept:,} can go"
            summary = f"{kept:,} groups of {gone}"
        elif hardly_differ(known):
            summary += (
                "\nThese features hardly differ between the images: cosines near 1 and their order "
                "mean nothing here.\nTrain longer, or embed with other weights, such as timm/NAME."
            )
        cells = ((x.image, x.rank, f"{x.cosine:.4f}", "yes" if x.keep else "no") for x in found)
        lines = [[*map(str, row[: len(heads)])] for row in cells]
        return heads, lines, summary, lambda: draw_selected(found, images, self.method)
