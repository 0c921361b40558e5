"""The verdict, the facts and the next commands of a report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..config.hooks import hook_value, is_named
from ..console.durations import format_hours
from ..console.wording import ALONE, percent
from ..engine.history import Record
from ..engine.troubles import HEALTHY, TROUBLES
from ..probing.probe_file import (
    START,
    WORSE_THAN_RANDOM,
    Probe,
    describe_gain,
    ends_of,
    name_of,
    propose,
    trained_start,
)
from ..system.commands import command_line
from ..weights.description import channels_of, modules_of
from .run import PretrainingRun

GOOD = "good"
UNSURE = "unsure"
BAD = "bad"
_SCORES = {
    "linear_mAP": "last probe mAP",
    "mIoU": "mIoU of that probe",
    "other_half": "other halves found",
}
"""Titles of the scores of a probe."""


class Fact(NamedTuple):
    """A number at the top of a report, with a remark below it."""

    name: str
    value: str
    remark: str = ""


class Answer(NamedTuple):
    """Whether a run learned. The last of the words says what to do."""

    tone: str
    headline: str
    words: list[str]


def verdict(run: PretrainingRun) -> Answer:
    """Return what the log says about a run, and what follows from it."""
    found = run.diagnosis.verdict
    # The headline says that it is healthy, or too short to tell.
    troubles = [each for each in run.diagnosis.lines if each.startswith("trouble: ")]
    words = [_sentence(each.removeprefix("trouble: ")).replace("`", "") for each in troubles]
    if found in TROUBLES:
        advice = "Fix what is named here and train again; these weights are not worth more work."
        return Answer(BAD, f"Trouble: {TROUBLES[found].name}", [*words, advice])

    start, last = ends_of(run.probes)
    has_gained = True
    if last.interval is not None:
        gain = 100 * (last.score - start.score)
        margin = 100 * last.interval
        has_gained = gain > margin
        if gain < -margin:
            words.append(f"The last probe loses {-gain:.1f} ± {margin:.1f} points.")
            return _worse(run, words)
        words.append(f"The last probe gains {gain:.1f} ± {margin:.1f} points of {last.measure}.")
    elif last.epoch:
        scores = f"{last.measure} {percent(last.score)}"
        if start.epoch == 0:  # probe.csv can have been moved away before a run was resumed
            scores += f", {percent(start.score)} before the training"
        words.append(f"The last probe: {scores}; {ALONE}.")
    elif not run.probes:
        words.append("Only labels tell how good the features are: see the command probe below.")

    if not run.is_finished:
        words.append("The training was stopped before its end; resume it.")
    if found == HEALTHY and not has_gained:
        advice = "Train longer, or probe with more labelled images."
        return Answer(UNSURE, "Healthy, but no better than its start", [*words, advice])
    if found == HEALTHY:
        advice = "The next commands are at the end of this page."
        return Answer(GOOD, "Healthy: no sign of trouble", [*words, advice])
    advice = "Training works, but it was too short to judge the features: train longer."
    return Answer(UNSURE, "Too short to tell", [*words, advice])


def _worse(run: PretrainingRun, words: Sequence[str]) -> Answer:
    """Return the answer for a run with worse weights at its end than at its start."""
    trouble = TROUBLES["worse_than_start"]
    advice = f"Keep the weights it began with, or start again: {trouble.cure}."
    if trained_start(run.cfg) is None:
        advice = _sentence(WORSE_THAN_RANDOM)
    return Answer(BAD, f"Trouble: {trouble.name}", [*words, advice])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def console_lines(run: PretrainingRun, answer: Answer) -> list[str]:
    """Return what to print of a verdict: of the log, or of the probe where only that is bad."""
    length, *words = run.diagnosis.lines
    if answer.tone == BAD and run.diagnosis.verdict not in TROUBLES:
        words = [f"trouble: {' '.join(answer.words)}"]
    return [length, *words]


def facts(run: PretrainingRun) -> list[Fact]:
    """Return the numbers on top of a report."""
    last = run.records[-1]
    max_epochs = run.cfg.train_cfg.max_epochs
    done = f"{last['epochs_done']:.1f}"
    steps = last["step"]
    if run.is_finished:
        # The last steps of an epoch need not have a line.
        done = f"{max_epochs}"
        steps = round(max_epochs * last["step"] / last["epochs_done"])

    found = [Fact("epochs", f"{done} of {max_epochs}", f"{steps:,} steps")]
    steps_s = total(run.records, "time")
    found.append(Fact("time", format_hours(steps_s / 3600), _device(run)))
    if memory := max(record.get("memory", 0) for record in run.records):
        most = f"{memory * 2**20 / 1e9:.1f} GB"
        found.append(Fact("memory at most", most, "without the reading processes"))

    before = [each for each in run.probes if each.epoch == 0]
    _, probed = ends_of(run.probes)
    for score, title in _SCORES.items():
        if (value := getattr(probed, score)) is not None:
            others = [f"{_weights(probe)}: {percent(getattr(probe, score))}" for probe in before]
            sure = ALONE if score == "mIoU" else describe_gain(run.probes, probed)
            found.append(Fact(title, percent(value), ", ".join([*others, sure])))
    return found


def next_commands(run: PretrainingRun, images: str, photograph: str) -> list[tuple[str, str]]:
    """Return the purpose and the command of each next step.

    The commands are typed in the folder of the run. ``photograph`` is one of its ``images``.
    """
    found = []
    if not run.is_finished:
        words = ["pretrain", _from(run, run.images_root)]
        if not run.recipe:  # a run of `train`
            words = ["train", os.path.basename(run.cfg.filename)]
        found.append(("Resume the training.", command_line(*words, "--work-dir=.", "--resume")))
    if run.weights is None:
        return found

    of_backbone = modules_of(run.cfg.model.backbone)
    uses = _uses_of_weights(run, run.weights, _from(run, images), _from(run, photograph))
    for purpose, words in uses:
        modules = () if words[0] == "select" else of_backbone
        found.append((purpose, command_line(*words, modules=modules)))
    return found


def _uses_of_weights(
    run: PretrainingRun, newest: Path, images: str, photograph: str
) -> list[tuple[str, list[str]]]:
    """Return purpose and words of the commands that take the weights of a run."""
    taken, is_worth = propose(newest, run.cfg)
    if taken is None:
        return []
    weights = _from(run, os.path.abspath(taken) if os.path.exists(taken) else taken)
    labelled = _from(run, hook_value(run.cfg, "ProbeHook", "data") or "DATA")

    found = []
    if is_worth and channels_of(run.cfg) == 3:
        others = "docs/your_network.md says how to detect and segment"
        if is_named(run.cfg.model.backbone, "ResNet"):
            others = "other tasks are detect and segment"
        kinds = "COCO, VOC or YOLO, or a folder per class"
        tune = ["finetune", weights, labelled, "--task", "classify"]
        found.append((f"Train on your own labels: {kinds}; {others}.", tune))
    search = ["neighbors", weights, photograph, images, "--out", "neighbors.png"]
    found += [
        ("Score the frozen features.", ["probe", weights, "random", labelled]),
        ("Write the features of all images.", ["embed", weights, images, "features.npz"]),
        ("Choose images to label next.", ["select", "features.npz"]),
        ("Find the photographs that are nearest to one.", search),
    ]
    if os.path.exists(taken):  # not a name
        export = ["export", weights, "--to=onnx"]
        found.append(("Export the backbone for other programs.", export))
    return found


def _from(run: PretrainingRun, path: str) -> str:
    """Return a path relative to the run: a page that is passed on shows no absolute paths."""
    return os.path.relpath(path, run.work_dir) if os.path.isabs(path) else path


def total(records: Sequence[Record], name: str) -> float:
    """Sum a scalar over all steps; a line of the log has the mean since the line before."""
    found = 0.0
    step = 0
    for record in records:
        found += (record["step"] - step) * record.get(name, 0.0)
        step = record["step"]
    return found


def _weights(probe: Probe) -> str:
    return "the weights it began with" if probe.weights == START else name_of(probe)


def _device(run: PretrainingRun) -> str:
    if not run.starts:
        return ""
    device = run.starts[-1]["environment"]["device"]
    count = run.starts[-1]["processes"]
    return f"on {count} x {device}" if count > 1 else f"on {'a CPU' if device == 'cpu' else device}"
