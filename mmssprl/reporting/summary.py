"""Did it learn, what did it take and what comes next, in words, numbers and commands."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from ..console.durations import format_hours
from ..console.wording import command_line, percent
from ..engine.history import Record
from ..engine.troubles import HEALTHY, TROUBLES
from ..pixels import Pixels
from ..probing.file import START, Probe, name_of, of_the_run, worth_taking
from .run import PretrainingRun

GOOD, UNSURE, BAD = "good", "unsure", "bad"

_CHANCE_POINTS = 2.2
"""Half a 95 % interval of the difference of two probes, where none was measured: 250 + 250 images
of Corel5K have a standard deviation of 0.8 points, so 1.96 * sqrt(2) * 0.8."""


class Fact(NamedTuple):
    """A number to be seen at once, with a remark below it."""

    name: str
    value: str
    remark: str = ""


class Answer(NamedTuple):
    """Whether it learned, and last of the words what to do; ``tone`` is GOOD, UNSURE or BAD."""

    tone: str
    headline: str
    words: list[str]


def answer(run: PretrainingRun) -> Answer:
    """Return what the log says about a run, and what follows from it."""
    verdict = run.diagnosis.verdict
    # The headline says that it is healthy, or too short to tell.
    told = [w.removeprefix("trouble: ") for w in run.diagnosis.words if w.startswith("trouble: ")]
    words = [f"{text[:1].upper()}{text[1:]}.".replace("`", "") for text in told]
    if verdict in TROUBLES:
        advice = "Fix what is named here and train again; these weights are not worth more work."
        return Answer(BAD, f"Trouble: {TROUBLES[verdict].name}", [*words, advice])
    stopped = [] if run.is_finished else ["The training was stopped before its end; resume it."]
    if (gain := _gain(run)) is not None:
        last, worse = of_the_run(run.probes)[-1], TROUBLES["worse_than_start"]
        margin = _CHANCE_POINTS if last.interval is None else 100 * last.interval
        if last.interval is not None and gain < -margin:
            words.append(f"The last probe loses {-gain:.1f} ± {margin:.1f} points.")
            advice = f"Keep the weights it began with, or start again: {worse.cure}."
            return Answer(BAD, f"Trouble: {worse.name}", [*words, advice])
        words.append(f"The last probe gains {gain:.1f} ± {margin:.1f} points of {last.measure}.")
        if verdict == HEALTHY and gain <= margin:
            advice = "Train longer, or probe with more labelled images."
            head = "Healthy, but no better than what it began with"
            return Answer(UNSURE, head, [*words, *stopped, advice])
    else:
        words.append("How good the features are only labels can tell: see the command probe below.")
    if verdict == HEALTHY:
        advice = "Take the weights to your own labels: the commands are at the end of this page."
        return Answer(GOOD, "Healthy: no sign of trouble", [*words, *stopped, advice])
    advice = "All works, but so short a training says nothing about the features: train longer."
    return Answer(UNSURE, "Too short to tell", [*words, *stopped, advice])


def facts(run: PretrainingRun) -> list[Fact]:
    """Return the numbers on top of a report."""
    last, first = run.records[-1], run.records[0]
    max_epochs = run.cfg.train_cfg.max_epochs
    done, steps = f"{last['epochs_done']:.1f}", last["step"]
    if run.is_finished:
        # The last steps of an epoch need not have a line.
        done, steps = f"{max_epochs}", round(max_epochs * last["step"] / last["epochs_done"])
    found = [Fact("epochs", f"{done} of {max_epochs}", f"{steps:,} steps")]
    steps_s = total(run.records, "time")
    found.append(Fact("time", format_hours(steps_s / 3600), _device(run)))
    if steps_s:
        waiting = f"{total(run.records, 'data_time') / steps_s:.0%} waiting for images"
        found.append(Fact("a step", f"{steps_s / last['step']:.2f} s", waiting))
    if memory := max(record.get("memory", 0) for record in run.records):
        most = f"{memory * 2**20 / 1e9:.1f} GB"
        found.append(Fact("memory at most", most, "without the reading processes"))
    before = [probe for probe in run.probes if probe.epoch == 0]
    titles = ("last probe mAP", "mIoU of that probe", "other halves found")
    for score, title in zip(("linear_mAP", "mIoU", "other_half"), titles, strict=True):
        if run.probes and (value := getattr(of_the_run(run.probes)[-1], score)) is not None:
            others = (f"{_weights(probe)}: {percent(getattr(probe, score))}" for probe in before)
            found.append(Fact(title, percent(value), ", ".join(others)))
    name = next((name for name in last if name.startswith("relative_")), None)
    if name is not None:
        start = f" at the start {first[name]:.2f}" if name in first else ""
        found.append(Fact("loss / chance", f"{last[name]:.2f}", f"1 is chance;{start}"))
    return found


def _gain(run: PretrainingRun) -> float | None:
    """Return the points that the last probe gains; None without one before and one after."""
    own = of_the_run(run.probes)
    if len(own) < 2 or own[0].epoch:
        return None
    return 100 * (own[-1].score - own[0].score)


def next_commands(run: PretrainingRun, images: str, photograph: str) -> list[tuple[str, str]]:
    """Return what a run can be followed by, the most useful first: purpose and command of each.

    The commands are typed in the folder of the run. ``photograph`` is one of its ``images``.
    """
    images, photograph = _from(run, images), _from(run, photograph)
    backbone, found = run.cfg.model.backbone, []
    if ":" not in backbone.get("network", ":"):
        return []  # a module that was given, which no command has
    if not run.is_finished:
        words = ["pretrain", _from(run, run.images_root)]
        if not run.recipe:  # no run of `pretrain`
            words = ["train", os.path.basename(run.cfg.filename)]
        found.append(("Resume the training.", [*words, "--work-dir=.", "--resume"]))
    if run.weights is not None:
        worth = worth_taking(run.weights, run.cfg.get("weights") or "")
        weights = _from(run, os.path.abspath(worth) if os.path.exists(worth) else worth)
        hooks = run.cfg.get("custom_hooks") or []
        labelled = next((each["data"] for each in hooks if each.get("data")), "DATA")
        kinds = "COCO, VOC or YOLO, or a folder per class; other tasks are detect and segment"
        labelled = _from(run, labelled)
        tune = ["finetune", weights, labelled, "--task", "classify"]
        search = ["neighbors", weights, photograph, images, "--out", "neighbors.png"]
        found += [
            (f"Train on your own labels: {kinds}.", tune),
            ("Score the frozen features.", ["probe", weights, "random", labelled]),
            ("Keep the features of all images.", ["embed", weights, images, "features.npz"]),
            ("Find the photographs that are nearest to one.", search),
            ("Write the backbone for other programs.", ["export", weights, "--to", "onnx"]),
        ]
        if (pixels := Pixels.of_config(run.cfg)) and pixels.channels != 3:
            found = [each for each in found if each[1][0] != "finetune"]  # which reads RGB
    return [(purpose, command_line(*words)) for purpose, words in found]


def _from(run: PretrainingRun, path: str) -> str:
    """Return a path as seen from the run: a page that is sent around tells no folders of others."""
    return os.path.relpath(path, run.work_dir) if os.path.isabs(path) else path


def total(records: Sequence[Record], name: str) -> float:
    """Sum up a scalar over all steps; a line has its mean since the last."""
    found, step = 0.0, 0
    for record in records:
        found += (record["step"] - step) * record.get(name, 0.0)
        step = record["step"]
    return found


def _weights(probe: Probe) -> str:
    return "the weights it began with" if probe.weights == START else name_of(probe)


def _device(run: PretrainingRun) -> str:
    if not run.starts:
        return ""
    device, count = run.starts[-1]["environment"]["device"], run.starts[-1]["processes"]
    return f"on {count} x {device}" if count > 1 else f"on {'a CPU' if device == 'cpu' else device}"
