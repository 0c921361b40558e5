"""Did it learn, what did it take, in words and few numbers."""

from datetime import datetime
from typing import Any, NamedTuple

from ..console.durations import format_hours
from ..console.wording import percent
from ..features.probe_record import START, Probe, best_of, for_comparison, name_of, of_the_run
from ..monitoring import HEALTHY, TROUBLES
from .run import PretrainingRun

GOOD, UNSURE, BAD = "good", "unsure", "bad"

_CHANCE_POINTS = 2.2
"""Half a 95 % interval of the difference of two probes: other 250 + 250 images of Corel5K move a
linear mAP by 0.8 points (standard deviation), so 1.96 * sqrt(2) * 0.8. A difference on the same
images, or on more of them, is surer: this says too seldom that a run is better, not too often."""


class Fact(NamedTuple):
    """A number to be seen at once, with a remark below it."""

    name: str
    value: str
    remark: str = ""


class Answer(NamedTuple):
    """Whether it learned.

    Attributes:
        tone: GOOD, UNSURE or BAD.
        headline: In a line.
        words: More about it.
        advice: What to do.
    """

    tone: str
    headline: str
    words: list[str]
    advice: str


def answer(run: PretrainingRun) -> Answer:
    """Return what the log says about a run, and what follows from it."""
    verdict = run.diagnosis.verdict
    # The headline says that it is healthy, or too short to tell.
    words = [w for w in run.diagnosis.words if w.startswith(("trouble: ", "earlier, "))]
    words = [_sentence(text.removeprefix("trouble: ")) for text in words]
    if verdict in TROUBLES:
        return Answer(
            BAD,
            f"Trouble: {TROUBLES[verdict].name}",
            words,
            "Mend what is named here and train again; these weights are not worth more work.",
        )
    stopped = "" if run.is_finished else "The training was stopped before its end; go on with it. "
    if verdict == HEALTHY and (gain := _gain(run)) is not None and gain <= _CHANCE_POINTS:
        return Answer(
            UNSURE,
            "Healthy, but no better than what it began with",
            [*words, f"The best probe gains {gain:.1f} ± {_CHANCE_POINTS} points of mAP."],
            f"{stopped}Train longer, or probe with more labelled images.",
        )
    if verdict == HEALTHY:
        advice = "Take the weights to your own labels: the commands are at the end of this page."
        return Answer(GOOD, "Healthy: no sign of trouble", words, stopped + advice)
    return Answer(
        UNSURE,
        "Too short to tell",
        words,
        f"{stopped}All works, but so short a training says nothing about the features. Train "
        "longer: without --epochs or --budget a number is chosen that suits the images.",
    )


def numbers(run: PretrainingRun) -> list[tuple[str, str, str]]:
    """Return the main numbers of a config, in the place of a recipe with reasons."""
    cfg = run.cfg
    optimizer = cfg.optim_wrapper.optimizer
    return [
        ("batch", f"{cfg.train_dataloader.batch_size} images per device", ""),
        ("epochs", f"{cfg.train_cfg.max_epochs}", ""),
        ("optimizer", f"{optimizer.type}, lr {optimizer.lr:.3g}", ""),
    ]


def facts(run: PretrainingRun) -> list[Fact]:
    """Return the numbers on top of a report."""
    last, first = run.records[-1], run.records[0]
    max_epochs = run.cfg.train_cfg.max_epochs
    done, steps = f"{last['epochs_done']:.1f}", last["step"]
    if run.is_finished:
        # The last steps of an epoch need not have a line.
        done, steps = f"{max_epochs}", round(max_epochs * last["step"] / last["epochs_done"])
    found = [Fact("epochs", f"{done} of {max_epochs}", f"{steps:,} steps")]
    found.append(Fact("time", format_hours(run.costs.seconds / 3600), _device(run)))
    if run.probes:
        found.append(_probe_fact(run))
    name = next((name for name in last if name.startswith("relative_")), None)
    if name is not None:
        start = f" at the start {first[name]:.2f}" if name in first else ""
        found.append(Fact("loss / chance", f"{last[name]:.2f}", f"1 is chance;{start}"))
    return found


def probe_words(run: PretrainingRun) -> str:
    """Return a sentence about the probes."""
    if not run.probes:
        return "How good the features are only labels can tell: see the command probe below."
    best, before = best_of(run.probes), of_the_run(run.probes)[0]
    others = "".join(
        f" {name_of(other).capitalize()} score {percent(other.linear_mAP)}."
        for other in for_comparison(run.probes)
    )
    text = f"A linear classifier on the frozen features scores mAP {percent(best.linear_mAP)}"
    if best.epoch == 0:
        return f"{text} before the training.{others}"
    if before.epoch:
        return f"{text} after epoch {best.epoch}."
    gain = 100 * (best.linear_mAP - before.linear_mAP)
    start = f"{percent(before.linear_mAP)} with {_weights(before)}"
    if gain <= 0:
        text += f" at best, not more than {start}: the training has not helped these labels."
    else:
        text += f" after epoch {best.epoch}, {start}: {gain:.1f} points more."
    return text + others


def _gain(run: PretrainingRun) -> float | None:
    """Return the points that the best probe gains; None without one before and one after."""
    own = of_the_run(run.probes)
    if len(own) < 2 or own[0].epoch:
        return None
    return 100 * (best_of(run.probes).linear_mAP - own[0].linear_mAP)


def _probe_fact(run: PretrainingRun) -> Fact:
    best = best_of(run.probes)
    before = [probe for probe in run.probes if probe.epoch == 0]
    remark = ", ".join(f"{_weights(probe)}: {percent(probe.linear_mAP)}" for probe in before)
    return Fact("best probe mAP", percent(best.linear_mAP), remark)


def costs(run: PretrainingRun) -> list[tuple[str, str]]:
    """Return what the training took, by name."""
    total, last = run.costs.seconds, run.records[-1]
    found = [
        ("all steps", format_hours(total / 3600)),
        ("an epoch", format_hours(total / last["epochs_done"] / 3600)),
    ]
    if total:
        waiting = run.costs.waiting / total
        step = f"{total / last['step']:.2f} s, of which {waiting:.0%} waiting for images"
        found += [("a step", step)]
    if total and "images_per_second" in last:
        found.append(("images a second", f"{run.costs.num_images / total:,.1f}"))
    if run.probes:
        seconds = sum(probe.seconds for probe in run.probes)
        found.append((f"{len(run.probes)} probes", f"{format_hours(seconds / 3600)} beside them"))
    if memory := run.costs.memory:
        found.append(("memory at most", f"{memory * 2**20 / 1e9:.1f} GB{_whose(run)}"))
    size = sum(path.stat().st_size for path in run.work_dir.glob("*.pth"))
    found.append(("checkpoints and weights", f"{size / 1e6:,.0f} MB"))
    if run.recipe:
        found.append(("forecast", run.recipe["forecast"].removeprefix("forecast: ")))
    return found


def starts(run: PretrainingRun) -> list[tuple[str, str]]:
    """Return when and with what the run was started, and gone on with."""
    return [(_time(start), _environment(start)) for start in run.starts]


def _weights(probe: Probe) -> str:
    return "the weights it began with" if probe.weights == START else name_of(probe)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _device(run: PretrainingRun) -> str:
    device = run.starts[-1]["environment"]["device"] if run.starts else ""
    processes = run.starts[-1]["processes"] if run.starts else 1
    name = "a CPU" if device == "cpu" else device
    return f"on {processes} x {device}" if processes > 1 else f"on {name}" if name else ""


def _whose(run: PretrainingRun) -> str:
    device = run.starts[-1]["environment"]["device"] if run.starts else ""
    return ", of the training process" if device == "cpu" else " of the device" if device else ""


def _time(start: dict[str, Any]) -> str:
    return f"{datetime.fromisoformat(start['time']):%Y-%m-%d %H:%M}"


def _environment(start: dict[str, Any]) -> str:
    environment, packages = start["environment"], start["environment"]["packages"]
    names = [f"{name} {packages[name]}" for name in ("mmssprl", "torch") if name in packages]
    where = f"{environment['processor']}, {environment['cores']} cores"
    device = "" if environment["device"] == "cpu" else f"{environment['device']}, "
    return f"{', '.join(names)}, Python {environment['python']}, on {device}{where}"
