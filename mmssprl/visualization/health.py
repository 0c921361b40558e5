"""Whether a run is healthy, by what its log measures."""

import re
from collections.abc import Sequence

from matplotlib.figure import Figure

from ..features.probe_record import Probe, for_comparison, name_of, of_the_run
from ..monitoring import Record, band_of
from .curves import CurvePanel, Points, draw_panels

_PANELS = {
    "embedding spread": ("embedding_spread",),
    "effective rank (RankMe)": ("effective_rank",),
    "mean cosine of two views": ("alignment", "alignment_others"),
    "share of the prototypes in use": ("prototypes_in_use_s",),
    "code perplexity / K": ("code_perplexity_s",),
    "perplexity of the mean prediction / K": ("prediction_perplexity_s",),
    "share of keys found in the queue": ("queue_top1",),
}
"""Scalars by the title of their panel; a name that ends in _s stands for all scales."""
_LABELS = {"alignment": "of one image", "alignment_others": "of two images"}
_COLUMNS = 3


def draw_health(records: Sequence[Record], probes: Sequence[Probe] = ()) -> Figure | None:
    """Draw the scalars of health over the epochs, and the probes; None if there are none.

    Behind each curve lies the band of healthy runs of ``mmssprl.monitoring``, if there is one for
    the scalar or, where a panel shows several scales, for the image. Probes of weights for
    comparison become level lines.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    last = records[-1]
    panels = []
    for title, wanted in _PANELS.items():
        chosen = [name for name in names if _is_wanted(name, wanted)]
        if chosen:
            lines = {_label(name): _points(records, name) for name in chosen}
            length = last["epochs_done"] / last["progress"]
            panels.append(
                CurvePanel(title, lines, band=band_of(chosen[0]), length=length, bottom=0)
            )
    if probes:
        panels.append(CurvePanel("mAP of the probes", _probe_lines(probes), bottom=0))
    if not panels:
        return None
    rows = [panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)]
    return draw_panels(rows, "epochs")


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return name in wanted or any(w.endswith("_s") and name.startswith(w) for w in wanted)


def _points(records: Sequence[Record], name: str) -> Points:
    found = [record for record in records if name in record]
    return [record["epochs_done"] for record in found], [record[name] for record in found]


def _probe_lines(probes: Sequence[Probe]) -> dict[str, Points]:
    own = of_the_run(probes)
    epochs = [probe.epoch for probe in own]
    return {
        "linear": (epochs, [probe.linear_mAP for probe in own]),
        "nearest neighbours": (epochs, [probe.knn_mAP for probe in own]),
        **{
            f"linear, {name_of(other)}": (epochs, [other.linear_mAP] * len(own))
            for other in for_comparison(probes)
        },
    }


def _label(name: str) -> str:
    return _LABELS.get(name) or _scale_of(name)


def scalar_name(name: str) -> str:
    """Return a scalar of the log in words: 'relative_pyramid_s1' is a loss of level 1."""
    base, scale = re.sub(r"_s\d+$", "", name), _scale_of(name)
    kind = base.removeprefix("relative_")
    words = f"{kind} loss / chance" if kind != base else base.replace("_", " ")
    return f"{words}, {scale}" if scale else words


def _scale_of(name: str) -> str:
    found = re.search(r"_s(\d+)$", name)
    return "" if found is None else "image" if found[1] == "0" else f"level {found[1]}"
