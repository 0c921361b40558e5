"""The runs of this page: each row with five seeds, from CONFIG files that this script writes.

    python docs/results/distillation/rows.py COREL5K WORK_DIR [--rows ROW ...] [--seeds SEED ...]

A run that is complete is left alone. COREL5K is the folder with train2014, val2014 and annotations.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from mmssprl.config.at_size import read_at_size
from mmssprl.datasets.subset import choose_subset
from mmssprl.experiments.compare.images import list_images
from mmssprl.experiments.compare.setting import IMAGE_PX
from mmssprl.pretraining.schedule import short_schedule

HERE = Path(__file__).parent
CONFIG = "configs/ssprl/distill_resnet50_2xb64-coslr-200e_coco.py"
SWAV = "configs/ssprl/ssprl-image-only-small-views_resnet50_2xb64-coslr-200e_coco.py"
LEVELS = [
    {"grid": 2, "resize_px": 90, "patch_px": 32, "area": (0.6, 1.0), "num_sampled": 2},
    {"grid": 3, "resize_px": 112, "patch_px": 28, "area": (0.6, 1.0), "num_sampled": 3},
]
# SwAV from Lite0's own weights, at the start's size.
LITE0 = {
    "share": 0.25,
    "model.backbone": {"_delete_": True, "type": "ModuleBackbone", "network": "lite:lite0"},
    "model.neck.in_channels": 1280,
    "model.layout.image_px": 96,
    "model.layout.small_px": 48,
    "model.head.num_prototypes": 30,
    "optim_wrapper.optimizer.lr": 1e-3,
}
STATISTICS = {"type": "ContinuationHook", "heads_first": 0}
HEADS_FIRST = {"type": "ContinuationHook", "heads_first": 1}
KEYS = "optim_wrapper.paramwise_cfg.custom_keys"
SLOW = {KEYS: {"backbone.": {"lr_mult": 0.1}}}
ANCHORED = {**LITE0, "hook": HEADS_FIRST, **SLOW, "model.type": "AnchoredSSPRL"}
# Parts of the protection, each left out of "anchored" or added to it by itself. Rule, before the
# runs: a part goes from ``pretrain --weights`` unless leaving it out loses, or adding it gains, by
# a 95 % interval over three seeds or more on the held-out images.
AT_ONCE = {**ANCHORED, "hook": STATISTICS}
INNER = "backbone.inner.network."
BLOCKS = {f"{INNER}_blocks.{i}.": 0.1 * 0.92 ** (15 - i) for i in range(16)}
HEAD = {f"{INNER}_conv_head": 0.1, f"{INNER}_bn1": 0.1}
FALLING = {name: {"lr_mult": rate} for name, rate in {"backbone.": 0.025, **BLOCKS, **HEAD}.items()}
# Epochs: as many as fit into the CPU time of swav-small with the teacher's pass, see README.md.
ROWS = {
    "swav-small": (SWAV, 44, {}),
    "pooled": (CONFIG, 40, {"model.dense_weight": 0.0}),
    "cells": (CONFIG, 36, {}),
    "cells-small": (CONFIG, 26, {"model.layout.num_small": 4}),
    "cells-patches": (CONFIG, 19, {"model.layout.levels": LEVELS}),
    "lite2": (CONFIG, 36, {"teacher": "lite2"}),
    "tenth": (CONFIG, 360, {"share": 0.1}),
    "tenth-swav-small": (SWAV, 440, {"share": 0.1}),
    "each-crop-64px": (CONFIG, 17, {"model.type": "EachCropDistillation", "model.crop_px": 64}),
    "each-crop-128px": (CONFIG, 6, {"model.type": "EachCropDistillation", "model.crop_px": 128}),
    "codes": (CONFIG, 40, {"model.type": "CodesDistillation"}),
    "random": (CONFIG, 0, {}),
    "start": (SWAV, 0, LITE0),
    "frozen": (SWAV, 0, LITE0),
    "frozen-224px": (SWAV, 0, {**LITE0, "image_px": 224}),
    "frozen-lite2": (SWAV, 0, {**LITE0, "model.backbone.network": "lite:lite2"}),
    "unprotected": (SWAV, 10, LITE0),
    "statistics": (SWAV, 10, {**LITE0, "hook": STATISTICS}),
    "statistics-share": (SWAV, 10, {**LITE0, "hook": STATISTICS, **SLOW}),
    "protected": (SWAV, 10, {**LITE0, "hook": HEADS_FIRST, **SLOW}),
    "protected-short": (SWAV, 3, {**LITE0, "hook": HEADS_FIRST, **SLOW}),
    "protected-long": (SWAV, 30, {**LITE0, "hook": HEADS_FIRST, **SLOW}),
    "anchored": (SWAV, 10, ANCHORED),
    "anchored-short": (SWAV, 3, ANCHORED),
    "anchored-long": (SWAV, 30, ANCHORED),
    "anchored-at-once": (SWAV, 10, AT_ONCE),
    "anchored-moving": (SWAV, 10, {k: v for k, v in AT_ONCE.items() if k != "hook"}),
    "anchored-full-rate": (SWAV, 10, {k: v for k, v in ANCHORED.items() if k not in SLOW}),
    "anchored-falling": (SWAV, 10, {**ANCHORED, KEYS: FALLING}),
    "anchored-two-views": (SWAV, 10, {**ANCHORED, "model.layout.num_small": 0}),
}


def first_of(file: Path, share: float) -> Path:
    """Write a list of some of the images of a list, always the same ones."""
    names = file.read_text().splitlines()
    kept = [names[index] for index in choose_subset(range(len(names)), share)]
    path = file.with_name(f"{file.stem}-{share:g}.txt")
    path.write_text("".join(f"{name}\n" for name in kept))
    return path


def main() -> None:
    """Do the runs that are missing, seed after seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--rows", nargs="+", default=[*ROWS], choices=ROWS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(5)])
    parser.add_argument("--split", default="test", choices=("test", "held-out"))
    asked = parser.parse_args()
    work_dir = (asked.work_dir / asked.split).resolve()
    images = list_images(work_dir, asked.data.resolve(), asked.split)
    for seed in asked.seeds:
        for row in asked.rows:
            config, epochs, values = ROWS[row]
            values = dict(values)
            teacher, share = values.pop("teacher", "lite0"), values.pop("share", 1.0)
            hook = values.pop("hook", None)
            image_px = values.pop("image_px", IMAGE_PX["photos"])
            maps = work_dir / (teacher if share == 1 else f"{teacher}-{share:g}")
            listed = images.list_file if share == 1 else first_of(images.list_file, share)
            folder = work_dir / f"{row}-{epochs}ep-seed{seed}"
            if (folder / "measured.json").exists():
                continue
            cfg = read_at_size(config, "photos")
            cfg.merge_from_dict(values)
            cfg.custom_hooks += [hook] * (hook is not None)
            if cfg.model.type == "AnchoredSSPRL":
                cfg.model.anchor_neck = {**cfg.model.neck, "out_channels": 256}
                cfg.train_dataloader.dataset.pipeline = [{"type": "TeacherCrop"}]
                cfg.custom_hooks.append({"type": "TeacherHook"})
            for each in cfg.custom_hooks:
                if each["type"] == "TeacherHook":
                    each.update(teacher=f"lite:{teacher}", folder=str(maps))
            kind = cfg.model.type
            if kind in ("EachCropDistillation", "CodesDistillation"):
                cfg.custom_imports = {"imports": ["forms"]}
                cfg.model.folder = str(maps)
            if kind == "EachCropDistillation":
                cfg.model.teacher = f"lite:{teacher}"
            if kind == "CodesDistillation":
                del cfg.model["dense_weight"]
            folder.mkdir(parents=True, exist_ok=True)
            file = work_dir / f"{row}.py"
            cfg.dump(file)
            options = {
                "randomness.seed": seed,
                "train_cfg.max_epochs": epochs,
                "param_scheduler": short_schedule(epochs),
                "num_threads": 1,
                "train_dataloader.dataset.data_root": str(asked.data.resolve()),
                "train_dataloader.dataset.ann_file": str(listed),
                "default_hooks.checkpoint.interval": max(5, epochs // 8),
                "default_hooks.checkpoint.max_keep_ckpts": 2,
            }
            settings = {
                "config": str(file),
                "size": None,
                "trains": epochs > 0,
                "seed": seed,
                "options": options,
                "data": str(asked.data.resolve()),
                "split": asked.split,
                "image_px": image_px,
            }
            (folder / "settings.json").write_text(json.dumps(settings))
            print(f"{row}, seed {seed}", flush=True)
            words = ["-m", "mmssprl.experiments.compare.training", str(folder)]
            subprocess.run([sys.executable, *words], check=False)


if __name__ == "__main__":
    main()
