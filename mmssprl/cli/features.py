"""Score frozen features or save them: `probe` and `embed`."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from ..console.options import argument, option, optional
from ..console.paths import check_data, check_images
from ..console.tables import csv_table, markdown_table
from ..console.wording import ALONE, counted, on_one_line
from ..system.commands import command_line
from ..system.outputs import write_whole
from ..weights.sources import check_weights
from ._command import IMAGES, WEIGHTS, OfWeights, Overwriting


class ProbeCommand(OfWeights, Overwriting):
    """Score frozen features: a linear classifier's mAP, and mIoU.

    Fit a regularised linear classifier on features of the training images and print its
    mAP on the test images; if the images have masks, also the mIoU of the feature map.
    Quick and comparable between backbones; not the paper's SGD protocol. DATA is read as by
    `finetune --task classify`; its validation images are the test images.

    examples:
      python -m mmssprl probe work_dirs/scenes/ssprl_resnet18_scenes_backbone.pth data/scenes/coco
      python -m mmssprl probe a.pth b.pth random data/flowers --out table.csv
    """

    weights: Sequence[str] = argument(WEIGHTS, check_weights)  # type: ignore[assignment]
    data: str = argument("labelled images", check_data)
    seed: int = option(
        "seed of random weights, validation folds and sampled test images", default=0
    )
    out: str | None = optional("file for the scores, also per class: .json or .csv")

    def run(self) -> None:
        """Score the weights."""
        from ..features.extract import FeatureOptions
        from ..probing.linear import best_weights, probe_all
        from ..system.locks import hold_output

        with ExitStack() as held:
            if self.out:
                held.enter_context(hold_output(self.out, ".json", ".csv", overwrite=self.overwrite))
            options = FeatureOptions(self.config, self.image_px, seed=self.seed)
            found = probe_all(self.weights, self.data, options)
            results = [asdict(each) for each in found]
            print("\n" + format_results(results))
            if self.out:
                is_csv = self.out.lower().endswith(".csv")
                numbers = json.dumps(results if len(results) > 1 else results[0], indent=2) + "\n"
                write_whole(self.out, _csv(results) if is_csv else numbers)
                print(f"\nnumbers: {self.out}")
        best, level = best_weights(found)
        print()
        if best is None:
            print(f"{level}; nothing follows")
            return
        if level:
            print(level)
        print(f"next: {command_line('finetune', best, self.data, '--task', 'classify')}")


def _csv(results: list[dict[str, Any]]) -> str:
    """Return one row per result: its scores, then AP and IoU per class."""
    lines = []
    for result in results:
        line = {n: x for n, x in result.items() if n != "dense" and not isinstance(x, dict)}
        dense = result["dense"] or {"per_class": {}}
        line |= {name: dense[name] for name in ("mIoU", "chance_mIoU") if name in dense}
        line |= {f"AP {name}": value for name, value in result["per_class"].items()}
        lines.append(line | {f"IoU {name}": x for name, x in dense["per_class"].items()})
    heads = list(dict.fromkeys(chain(*lines)))
    rows = []
    for line in lines:
        rows.append([line.get(name) for name in heads])
    return csv_table(heads, rows)


def format_results(results: list[dict[str, Any]]) -> str:
    """Return a table with one row per result, in percent."""
    names = [Path(result["weights"]).name for result in results]
    if len(set(names)) < len(names):
        names = [result["weights"] for result in results]
    best = max(results, key=lambda result: result["mAP"])
    rows = []
    for name, result in zip(names, results, strict=True):
        cells = {
            "weights": name,
            "images": f"{result['num_train']} + {result['num_test']}",
            "classes": str(result["num_classes"]),
            "px": str(result["image_px"]),
            "mAP %": _percent(result["mAP"]),
            "chance %": _percent(result["chance_mAP"]),
        }
        if len(results) > 1:
            behind = _percent(best["mAP"] - result["mAP"])
            interval = "?" if result["interval"] is None else _percent(result["interval"])
            cells["behind the best"] = "-" if result is best else f"{behind} ± {interval}"
        if result["accuracy"] is not None:
            cells["accuracy %"] = _percent(result["accuracy"])
            cells["most frequent %"] = _percent(result["chance_accuracy"])
        if any(each["dense"] for each in results):
            dense = result["dense"]
            cells["mIoU %"] = _percent(dense["mIoU"]) if dense else "-"
            cells["chance mIoU %"] = _percent(dense["chance_mIoU"]) if dense else "-"
        rows.append(cells)

    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows], num_left=3)
    others = {"accuracy %", "mIoU %"} & rows[0].keys()
    if len(rows) > 1 and others:
        table += f"\n\n{' and '.join(sorted(others))}: {ALONE}"
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


class EmbedCommand(OfWeights, Overwriting):
    """Write the features of photographs into a file.

    Write the features that `probe` scores, with the image names, into an .npz file.
    Unreadable images are skipped. docs/embeddings.md shows how to use the file.

    examples:
      python -m mmssprl embed work_dirs/photos/swav-small_resnet18_backbone.pth photos/ photos.npz
      python -m mmssprl embed supervised photos/ photos.npz --image-px 448
    """

    images: str = argument(IMAGES, check_images)
    out: str = argument("file to write: .npz")

    def run(self) -> None:
        """Write the features."""
        from ..search import embed
        from ..system.locks import hold_output

        with hold_output(self.out, ".npz", overwrite=self.overwrite):
            rows = embed(self.weights, self.images, config=self.config, image_px=self.image_px)
            rows.save(self.out, overwrite=True)
        if rows.unreadable:
            name, why = rows.unreadable[0]
            first = on_one_line(f"first {name}: {why}")
            print(f"{counted(len(rows.unreadable), 'unreadable image')} skipped ({first})")
        megabytes = Path(self.out).stat().st_size / 1e6
        print(f"embeddings: {self.out} ({len(rows):,} images, {megabytes:.1f} MB)")
        given = {"config": self.config, "image-px": self.image_px, "embeddings": self.out}
        words: list[str] = []
        for name, value in given.items():
            if value:
                words += [f"--{name}", str(value)]
        print(f"next: {command_line('neighbors', self.weights, 'QUERY', self.images, *words)}")
