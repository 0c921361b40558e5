"""Find troubles of a training in its log, and name their cures.

A sign must last for a while, because healthy trainings show it in some lines, too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from ..console.wording import counted
from ..errors import UserValueError
from ..system.record_file import RECORD_FILE, has_ended, read_record
from .history import Record, read_scalars

PAGE = "docs/troubleshooting.md"
AT_CHANCE = 0.99  # relative loss above which a term has learned nothing
_COLLAPSED_SPREAD = 0.3
"""In [0, 1]; 0.28 to 0.85 in healthy runs, so the rank must be low as well."""
_COLLAPSED_RANK = 5.0  # dimensions; 6.6 to 39 of 64 in healthy runs
_LEAST_GAP = 0.03  # cosine of views of one image minus of two images; >= 0.06 in healthy runs
_UNIFORM_CODES = 0.95  # perplexity of the codes / K, in (0, 1]; <= 0.36 in healthy runs
_LEAST_IN_USE = 0.25  # share of the prototypes; >= 0.46 in healthy runs
LEAST_STEPS = 64  # updates before which a loss at chance says nothing
_EPOCHS_AT_CHANCE = 3.0
_FALL = 0.02
"""Fall of a relative loss between the halves of three epochs; 0.05 in a healthy run, 0.01 in one
that learns nothing."""
_MOST_WAITING = 0.5
"""Share of a step's time that it waits for images; <= 0.37 in healthy runs."""
HEALTHY = "healthy"  # a verdict, as are the keys of TROUBLES
TOO_SHORT = "too_short"
_LEAST_EPOCHS = 3.0  # a shorter log has no verdict
_LEAST_LINES = 4


class _Kind(NamedTuple):
    name: str
    cure: str  # options of ``pretrain`` and keys of the config to change
    sign: Callable[[str, Record], bool]  # whether a scalar of a line shows it
    seen: str  # format of what the log shows, see ``find``
    prefix: str  # names of the scalars to look at begin with it
    epochs: float = 2.0  # minimum duration of the sign
    share: float = 0.0  # minimum duration of the sign as a share of the training

    def find(self, records: Sequence[Record]) -> str | None:
        """Return what the log shows, None if there is no such trouble."""
        last = records[-1]
        for name in last:
            if not name.startswith(self.prefix):
                continue
            time = self._lasting(name, records)
            if time and not (self.share and _is_learning(name, records)):
                return self._describe(name, last, time)
        return None

    def _describe(self, name: str, record: Record, time: str) -> str:
        kind, _, scale = name.removeprefix("relative_").partition("_s")
        words = {
            "value": record[name],
            "loss": f"{kind} loss of scale {scale}" if scale else f"{kind} loss",
            "scale": scale,
            "time": time,
            "waiting": record.get("data_time", 0) / (record.get("time") or 1),
        }
        return self.seen.format(**{**record, **words})

    def _lasting(self, name: str, records: Sequence[Record]) -> str | None:
        """Return how long the sign has lasted up to now, None if not long enough."""
        shown = [*takewhile(lambda r: name in r and self.sign(name, r), reversed(records))]
        if len(shown) < 3:
            return None
        epochs = shown[0]["epochs_done"] - shown[-1]["epochs_done"]
        share = shown[0]["progress"] - shown[-1]["progress"]
        is_long = epochs >= self.epochs and share >= self.share
        return counted(int(epochs), "epoch") if is_long else None


def find_troubles(records: Sequence[Record]) -> dict[str, str]:
    """Return the troubles at the last line, by key in ``TROUBLES``, each as a line with its cure.

    Several may explain a loss at chance; only the first of these is returned.
    """
    found: dict[str, str] = {}
    for key, kind in TROUBLES.items():
        is_explained = key in _EXPLAIN_CHANCE and found.keys() & _EXPLAIN_CHANCE
        if not is_explained and (seen := kind.find(records)) is not None:
            found[key] = f"{seen}: {kind.name}; {kind.cure}; see {PAGE}"
    return found


def is_collapsed(values: Mapping[str, float]) -> bool:
    """Return whether all images have nearly the same embedding, by a line of the log."""
    is_narrow = values.get("embedding_spread", 1.0) < _COLLAPSED_SPREAD
    return is_narrow and values.get("effective_rank", 1e9) < _COLLAPSED_RANK


def _is_learning(name: str, records: Sequence[Record]) -> bool:
    """Return whether a loss still falls between the halves of its last lines, or is too young."""
    if records[-1]["step"] < LEAST_STEPS:
        return True
    since = records[-1]["epochs_done"] - _EPOCHS_AT_CHANCE
    values = [record[name] for record in records if record["epochs_done"] >= since]
    half = len(values) // 2
    return mean(values[:half]) - mean(values[half:]) > _FALL


_RATE = "the learning rate (--lr of `pretrain`, or optim_wrapper.optimizer.lr)"
_IN_CONFIG = "(--cfg-options, or the config)"
TROUBLES = {
    "lr_zero": _Kind(
        "nothing is learned",
        f"raise {_RATE}, or let param_scheduler end with the training",
        lambda name, record: record[name] == 0,
        "the learning rate has been 0 for {time}",
        epochs=1,
        prefix="lr",
    ),
    "collapsed": _Kind(
        "collapsed",
        f"lower {_RATE}; or lower optim_wrapper.optimizer.weight_decay, halve the colour jitter of "
        f"model.data_preprocessor, raise model.head.freeze_iters {_IN_CONFIG}",
        lambda name, record: is_collapsed(record),
        "all images have had nearly the same embedding for {time} (spread "
        "{embedding_spread:.2f}, effective rank {effective_rank:.1f})",
        prefix="embedding_spread",
    ),
    "identical": _Kind(
        "nothing tells the images apart",
        "look at them by `visualize views`: many copies of one image, or too "
        "strong an augmentation",
        lambda name, record: (
            record.get("alignment", 1.0) - record.get("alignment_others", 0.0) < _LEAST_GAP
            and not is_collapsed(record)
        ),
        "for {time} two views of an image have been no more alike than views of two images "
        "(cosines {alignment:.2f} and {alignment_others:.2f})",
        prefix="alignment_others",
    ),
    "epsilon": _Kind(
        "codes that say nothing",
        f"lower model.head.epsilon to 0.05 or 0.02 {_IN_CONFIG}",
        lambda name, record: record[name] > _UNIFORM_CODES and not is_collapsed(record),
        "every code of scale {scale} has been spread over {value:.0%} of the prototypes for {time}",
        prefix="code_perplexity_s",
    ),
    "prototypes": _Kind(
        "too many prototypes",
        "lower model.head.num_prototypes, or num_patch_prototypes for patches, to a tenth of the "
        f"images or less {_IN_CONFIG}",
        lambda name, record: record[name] < _LEAST_IN_USE and not is_collapsed(record),
        "an epoch's images have used {value:.0%} of the prototypes of scale {scale} for {time}",
        prefix="prototypes_in_use_s",
    ),
    "at_chance": _Kind(
        "it learns nothing",
        f"raise {_RATE} to three times; if that does not help, halve the colour jitter of "
        f"model.data_preprocessor {_IN_CONFIG}",
        lambda name, record: record[name] >= AT_CHANCE and not record.get("frozen"),
        "the {loss} has been no better than chance for {time}",
        epochs=_EPOCHS_AT_CHANCE,
        prefix="relative_",
        share=0.1,
    ),
    "worse_than_start": _Kind(
        "worse than its start",
        "lower lr (--lr of `pretrain`), and start again from the weights",
        lambda name, record: record[name] + record.get("gain_interval", math.inf) < 0,
        "for {time} the probe has gained {value:.1f} ± {gain_interval:.1f} points over the weights "
        "that the training started from",
        epochs=1,
        prefix="gain_over_start",
    ),
    "loader": _Kind(
        "the loader is too slow",
        "raise the number of reading processes (--num-workers of `pretrain`, or "
        "train_dataloader.num_workers), or shrink the image files",
        lambda name, record: record[name] > _MOST_WAITING * record.get("time", 0) > 0,
        "for {time} steps have waited for images, now {waiting:.0%} of their time",
        epochs=1,
        prefix="data_time",
    ),
}
"""By key, in the order of what they explain."""
_EXPLAIN_CHANCE = {"lr_zero", "collapsed", "identical", "epsilon", "prototypes", "at_chance"}


class Diagnosis(NamedTuple):
    """The verdict on a run."""

    verdict: str  # ``HEALTHY``, ``TOO_SHORT`` or the key of the first trouble
    lines: list[str]  # to print: the length of the log, and one per trouble


def diagnose(run: str | Path, records: Sequence[Record] | None = None) -> Diagnosis:
    """Judge the work dir ``run`` by its log, or by ``records``, the lines of that log.

    Raises:
        FileNotFoundError, ValueError: As ``read_scalars``, or it is not a log of a pre-training.
    """
    records = read_scalars(run) if records is None else records
    if not records or any("progress" not in record for record in records):
        raise UserValueError(
            f"the log of {run} must have 'progress' in each line, but has not; give a pre-training "
            "with log_processor=dict(type='PretrainLogProcessor') in its config, as in "
            "configs/_base_/default_runtime.py."
        )
    done = _progress(Path(run), records)
    troubles = find_troubles(records)
    if troubles:
        lines = [f"trouble: {line}" for line in troubles.values()]
        return Diagnosis(next(iter(troubles)), [done, *lines])

    last = records[-1]
    is_long = last["epochs_done"] >= _LEAST_EPOCHS and last["step"] >= LEAST_STEPS
    if not is_long or len(records) < _LEAST_LINES:
        needed = f"{_LEAST_EPOCHS:.0f} epochs and {LEAST_STEPS} steps"
        wait = f"too short to tell: a verdict needs {needed}, the log has {last['step']:,} steps"
        return Diagnosis(TOO_SHORT, [done, wait])
    return Diagnosis(HEALTHY, [done, "healthy: no sign of trouble"])


def _progress(run: Path, records: Sequence[Record]) -> str:
    """Return the epochs that are done, and the number of images if the run has recorded it."""
    last = records[-1]
    # The log's last line is up to an interval before the last step.
    interval = last["progress"] - (records[-2]["progress"] if len(records) > 1 else 0.0)
    # An export may come from the best probe, or from a shorter training that this run resumed.
    exported = [path.stem for path in run.glob("*_backbone.pth")]
    is_exported = any(not stem.endswith("_best_backbone") for stem in exported)
    is_complete = is_exported and last["progress"] + interval >= 1 and has_ended(run, unknown=True)

    planned = last["epochs_done"] / last["progress"]
    done = planned if is_complete else last["epochs_done"]
    of = f"{planned:.0f}" if planned >= 1 else f"{planned:.1f}"
    text = f"trained: {done:.1f} of {of} epochs"
    starts = read_record(run / RECORD_FILE).get("starts") or [{}]
    images = starts[-1].get("images")
    if images is None:
        return text
    return f"{text} of {images['num_images']:,} images"
