"""The runs of this page; each score is added to a CSV file as soon as it is known.

    python docs/results/deployed/runs.py COREL5K VOC128 WORK_DIR [--networks NAME ...]
        [--seeds SEED ...]

PYTHONPATH has docs/results/distillation, for lite.py. results.csv and dense.csv of
WORK_DIR begin with the lines of this page's files. A score that they have is not made again, and
weights that are in WORK_DIR are not trained again.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import lite  # noqa: F401  lite:lite0
import torch
from mmengine.config import Config
from networks import BACKBONES, TRAINED_BY, epochs_of

from mmssprl.experiments.compare.images import read_images
from mmssprl.experiments.compare.rows import Row, choose_rows
from mmssprl.pretraining.backbones import find_backbone
from mmssprl.system.environment import source_commit
from mmssprl.weights import RANDOM, load_network, write_description

HERE = Path(__file__).parent
ROWS_FILE = HERE.parent / "distillation" / "rows.yaml"
IMAGE_PX = 96
RESULTS = (
    *("network", "row", "seed", "epochs", "measure", "mAP", "num_train", "num_val"),
    *("pretraining_s", "seconds", "commit"),
)
"""``seconds``: CPU time of the command that made the score; ``pretraining_s``: of the training of
its weights, with a teacher's pass."""
DENSE = (
    *("row", "seed", "question", "IoU", "constant", "num_train", "num_val"),
    *("seconds", "commit", "per_image"),
)
"""``per_image``: the IoU in percent of each test image."""
FILES = {"results.csv": RESULTS, "dense.csv": DENSE}
ROWS = {
    "narrow": ("random", "swav-small", "cells", "pooled"),
    "lite0": ("start", "anchored"),
    "resnet18": ("random", "swav-small", "distill"),
    "mobilenetv3": ("random", "swav-small", "distill"),
}
"""Rows by network. Those of the first two are of distillation/rows.yaml."""
OPTIONS = ("--task", "classify", "--image-px", str(IMAGE_PX))
SHARES = {"10 %": 0.1, "100 %": 1.0}
SEEDS = {"narrow": 5, "lite0": 5, "resnet18": 3, "mobilenetv3": 3}


class Weights(NamedTuple):
    """Weights to score: a file or 'random', how they were made, and the score by `compare`."""

    file: str
    epochs: int
    pretraining_s: float
    linear: tuple[float, float] | None = None  # mAP in percent, and CPU seconds of the command


class Runner:
    """Makes the missing scores of a work dir."""

    def __init__(self, data: Path, voc: Path, work_dir: Path) -> None:
        self.data, self.voc, self.work_dir = data.resolve(), voc.resolve(), work_dir.resolve()
        self.work_dir.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if not (self.work_dir / name).exists():
                shutil.copy(HERE / name, self.work_dir / name)
        images = read_images(self.data, "test")
        self.sizes = {"num_train": len(images.train.paths), "num_val": len(images.test.paths)}

    def do(self, network: str, row: str, seed: int) -> None:
        """Make the scores that a row with a seed lacks."""
        key = {"network": network, "row": row, "seed": str(seed)}
        measures = ["linear", *SHARES] if network in ("narrow", "lite0") else ["linear", "10 %"]
        missing = [name for name in measures if not self.has("results.csv", key, measure=name)]
        lacks_dense = network == "narrow" and not self.has(
            "dense.csv", {"row": row, "seed": str(seed)}
        )
        if not missing and not lacks_dense:
            return
        made = self.weights(network, row, seed)
        common = {**key, "epochs": made.epochs, "pretraining_s": made.pretraining_s}
        for measure in missing:
            if measure == "linear":
                found = self.linear(network, row, seed, made)
            else:
                found = self.tuned(network, row, seed, made, measure)
            self.add("results.csv", {**common, "measure": measure, **found})
        if lacks_dense:
            self.dense(network, row, seed, made)

    def has(self, file: str, key: dict[str, str], **more: str) -> bool:
        """Whether a file has a line with these values."""
        with (self.work_dir / file).open(newline="") as opened:
            return any((key | more).items() <= line.items() for line in csv.DictReader(opened))

    def add(self, file: str, values: dict) -> None:
        """Add a line to a file."""
        with (self.work_dir / file).open("a", newline="") as opened:
            writer = csv.DictWriter(opened, FILES[file], lineterminator="\n")
            writer.writerow({**values, "commit": source_commit()})
        shown = {name: value for name, value in values.items() if name != "per_image"}
        print(*shown.values(), flush=True)

    def weights(self, network: str, row: str, seed: int) -> Weights:
        """Train weights, or find them."""
        if network not in BACKBONES:
            return self.weights_of_rows(network, row, seed)
        if row == RANDOM:
            return Weights(RANDOM, 0, 0.0)
        epochs = epochs_of(network, row)
        folder = self.work_dir / network / f"{row}-{epochs}ep-seed{seed}"
        spent = folder / "cpu_seconds.json"
        if not spent.exists():
            shutil.rmtree(folder, ignore_errors=True)
            options = ("--backbone", BACKBONES[network], *TRAINED_BY[row], "--epochs", epochs)
            images = self.data / "train2014"
            words = ("pretrain", images, *options, "--seed", seed, "--work-dir", folder)
            seconds = self.command("-m", "mmssprl", *words)
            spent.write_text(json.dumps(seconds))
        [file] = folder.glob("*_backbone.pth")
        return Weights(str(file), epochs, json.loads(spent.read_text()))

    def weights_of_rows(self, network: str, row: str, seed: int) -> Weights:
        """Let `compare` make a row of distillation/rows.yaml, and read its score."""
        epochs = row_named(row).epochs or 0
        folder = self.work_dir / "rows" / "runs" / f"{row}-{epochs}ep-lr1-seed{seed}"
        words = ("compare", "--data", self.data, "--methods", f"{ROWS_FILE}:{row}")
        words += ("--reference", row, "--equal", "epochs", "--seeds", seed + 1, "--jobs", 1)
        words += ("--work-dir", self.work_dir / "rows")
        seconds = self.command("-m", "mmssprl", *words)
        values = json.loads((folder / "measured.json").read_text())
        linear = (100 * values["mAP"], round(seconds, 1))
        file = RANDOM if row == RANDOM else str(self.network_file(network))
        if epochs:
            [file] = map(str, folder.glob("*_backbone.pth"))
        return Weights(file, epochs, round(values.get("seconds", 0.0), 1), linear)

    def linear(self, network: str, row: str, seed: int, made: Weights) -> dict:
        """Return the score of a linear classifier on frozen features."""
        if made.linear:
            return {"mAP": made.linear[0], "seconds": made.linear[1], **self.sizes}
        out = self.work_dir / f"probe-{network}-{row}-seed{seed}.json"
        words = ["probe", made.file, self.data, "--image-px", IMAGE_PX, "--seed", seed]
        if made.file == RANDOM:
            words += ["--config", self.network_file(network).with_suffix(".py")]
        seconds = self.command("-m", "mmssprl", *words, "--out", out, "--overwrite")
        found = json.loads(out.read_text())
        sizes = {"num_train": found["num_train"], "num_val": found["num_test"]}
        return {"mAP": 100 * found["mAP"], "seconds": seconds, **sizes}

    def tuned(self, network: str, row: str, seed: int, made: Weights, measure: str) -> dict:
        """Return the score after a fine-tuning with a share of the labels."""
        folder = self.work_dir / "tuned" / f"{network}-{row}-{SHARES[measure]:g}-seed{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        if made.file == RANDOM:  # as `finetune FILE --baseline random` does it
            asked = {"image_px": IMAGE_PX, "share": SHARES[measure], "seed": seed}
            inputs = {"weights": RANDOM, "data": str(self.data), "task": "classify"}
            inputs |= {"asked": asked, "backbone_from": str(self.network_file(network))}
            folder.mkdir(parents=True)
            (folder / "settings.json").write_text(json.dumps(inputs))
            seconds = self.command("-m", "mmssprl.experiments.finetune", folder)
        else:
            given = (made.file, self.data, *OPTIONS, "--share", SHARES[measure], "--seed", seed)
            words = ("finetune", *given, "--work-dir", folder / "run")
            seconds = self.command("-m", "mmssprl", "--import", "lite", *words)
        found = json.loads((folder / "run" / "scores.json").read_text())
        for checkpoint in folder.glob("run/*.pth"):
            checkpoint.unlink()
        sizes = {name: found[name] for name in self.sizes}
        return {"mAP": found["mAP"], "seconds": seconds, **sizes}

    def dense(self, network: str, row: str, seed: int, made: Weights) -> None:
        """Add the scores of dense.py."""
        out = self.work_dir / f"dense-{row}-seed{seed}.json"
        words = [HERE / "dense.py", made.file, self.voc, out, "--seed", seed]
        if made.file == RANDOM:
            words += ["--config", self.network_file(network).with_suffix(".py")]
        seconds = self.command(*words)
        for question, found in json.loads(out.read_text()).items():
            found["per_image"] = " ".join(map(str, found["per_image"]))
            found |= {"row": row, "seed": seed, "question": question, "seconds": seconds}
            self.add("dense.csv", found)

    def network_file(self, network: str) -> Path:
        """Write a network with its description and config; Lite0 has its own weights."""
        path = self.work_dir / f"{network}.pth"
        if network == "narrow":
            cfg = config_of("swav-small")
        elif network == "lite0":
            cfg = config_of("frozen")
        else:
            cfg = Config({"model": {"backbone": find_backbone(BACKBONES[network], {64, 32}).cfg}})
        cfg.dump(path.with_suffix(".py"))
        weights = "lite:lite0" if network == "lite0" else RANDOM
        torch.save(load_network(weights, cfg).state_dict(), path)
        write_description(path, cfg)
        return path

    def command(self, *words: object) -> float:
        """Run Python in its own process, and return its seconds of CPU time."""
        texts = [sys.executable, *map(str, words)]
        with (self.work_dir / "output.txt").open("ab") as output:
            process = subprocess.Popen(texts, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise subprocess.CalledProcessError(status, texts)
        return round(usage.ru_utime + usage.ru_stime, 1)


def row_named(name: str) -> Row:
    """Return a row of distillation/rows.yaml."""
    _, row = choose_rows([f"{ROWS_FILE}:{name}"], name)
    return row


def config_of(row: str) -> Config:
    """Return a config of the backbone of a row."""
    return Config({"model": {"backbone": row_named(row).config_at("photos").model.backbone}})


def wanted(networks: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Yield network, row and seed in the order of the runs."""
    for group in (("narrow", "lite0"), tuple(BACKBONES)):
        for seed in seeds:
            for network in group:
                if network in networks and seed < SEEDS[network]:
                    yield from ((network, row, seed) for row in ROWS[network])


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("voc", type=Path)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--networks", nargs="+", default=[*ROWS], choices=ROWS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(5)])
    asked = parser.parse_args()
    runner = Runner(asked.data, asked.voc, asked.work_dir)
    for network, row, seed in wanted(asked.networks, asked.seeds):
        try:
            runner.do(network, row, seed)
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            print(f"{network} {row} seed {seed} failed: {error}", flush=True)


if __name__ == "__main__":
    main()
