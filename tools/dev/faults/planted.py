"""Programs in the place of the config that a command finds by itself: nothing of them runs."""

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from PIL import Image

from mmssprl import cli
from mmssprl.weights import RANDOM, load_backbone

from .base import Answer, Apart, Log, Outcome, judge

LIMIT_S = 60.0  # time of one command, on a machine that does other things
BACKBONE = {
    **{"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8, "num_stages": 2},
    **{"strides": (1, 2), "dilations": (1, 1), "out_indices": (1,)},
}
PROGRAMS = {
    "a statement": "open('sprung', 'w').close()\n",
    "a call as a value": "x = dict(a=[open('sprung', 'w').close()])\n",
    "a module": "import planted\n",
    "a base": "_base_ = 'planted.py'\n",
    "an import as data": "custom_imports = dict(imports=['planted'])\n",
    "a type that is a function": "x = dict(type='os.system', command='touch sprung')\n",
    "a type that is a module": "x = dict(type='planted')\n",
    "a type that is evaluated": "x = dict(type=\"open('sprung', 'w').close()\")\n",
    "a million brackets": f"x = {'[' * 10**6}\n",
}
"""What a file begins with that is a config otherwise."""
COMMANDS = (
    "embed w/w.pth photos out.npz",
    "neighbors w/w.pth photos/0.png photos",
    "probe w/w.pth labelled",
    "export w/w.pth --to safetensors",
    "benchmark w/w.pth --size scenes --dry-run",
    "finetune w/w.pth labelled --task classify --work-dir new",
    "finetune w/w.pth labelled --task classify --work-dir tuned --resume",
    "predict tuned photos --out out",
    "pretrain photos --work-dir run --resume",
    "visualize figures run out.html",
    "report run",
)
"""Each looks for a config beside weights or in a run's folder."""


def planted(log: Log) -> Outcome:
    """Give each command each of the programs; one line, and nothing else, must come of it."""
    found = judge(_answers(), ("one line",), log)
    remark = f"refused in one line, nothing runs; {len(COMMANDS)} commands"
    fault = f"planted config beside weights or in a run's folder: {', '.join(PROGRAMS)}"
    return found.outcome(fault, remark)


def write_trap(folder: Path, program: str) -> None:
    """Write images, weights, a pre-training and a fine-tuning, with a program in each config."""
    (folder / "planted.py").write_text(PROGRAMS["a statement"])
    for i in range(8):
        for path in (folder / f"photos/{i}.png", folder / f"labelled/{'ab'[i % 2]}/{i}.png"):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((32, 32, 3), 20 * i, np.uint8)).save(path)
    content = {
        "model": {"type": "SSPRL", "layout": {"image_px": 32}, "backbone": BACKBONE},
        "train_dataloader": {"dataset": {"data_root": str(folder / "photos")}},
        "finetuning": {"data_root": "labelled"},
    }
    state = load_backbone(RANDOM, Config(content)).state_dict()
    checkpoint = {"meta": {"epoch": 1, "iter": 1}, "state_dict": state}
    for weights, config, kept in (
        ("w/w.pth", "w/a.py", state),
        ("run/epoch_1.pth", "run/ssprl_a.py", checkpoint),
        ("tuned/epoch_1.pth", "tuned/classify.py", checkpoint),
    ):
        (folder / weights).parent.mkdir()
        torch.save(kept, folder / weights)
        text = Config(content, format_python_code=False).pretty_text
        (folder / config).write_text(program + text + "\n")
    log = folder / "run/20260101_000000/vis_data/scalars.json"
    log.parent.mkdir(parents=True)
    line = {"lr": 0.1, "loss": 1.0, "epoch": 1, "iter": 1, "step": 1}
    log.write_text(json.dumps({**line, "progress": 0.5, "epochs_done": 0.5}) + "\n")


def _answers() -> Iterator[tuple[str, Answer]]:
    for (name, program), command in product(PROGRAMS.items(), COMMANDS):
        with tempfile.TemporaryDirectory() as folder:
            write_trap(Path(folder), program)
            with Apart(_be_command, limit_s=LIMIT_S) as process:
                answer = process.ask((command, folder))
            if Path(folder, "sprung").exists():
                answer = answer._replace(kind="it runs")
        yield f"{name}: {command}", answer


def _be_command(question: tuple[str, str]) -> tuple[str, str]:
    command, folder = question
    os.chdir(folder)
    sys.path.insert(0, folder)  # as `python -m` has it
    out, told = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            status = cli.main(command.split())
    except BaseException as error:  # whatever it is, the process has not told it in a line
        return "raises", repr(error)
    lines = [line for line in told.getvalue().splitlines() if line.startswith("mmssprl ")]
    is_told = status == 2 and len(lines) == 1 and "it is read as data" in lines[0]
    return ("one line" if is_told else f"status {status}"), told.getvalue()
