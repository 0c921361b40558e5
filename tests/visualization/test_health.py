"""Curves of health over the epochs."""

import pytest

from mmssprl.features.probe_hook import Probe
from mmssprl.monitoring import band_of
from mmssprl.visualization.curves import draw_health, scalar_name


def test_panels_are_of_what_the_log_has():
    records = [
        {"epochs_done": 2.0 * i, "progress": i / 4, "lr": 0.1, "embedding_spread": 0.1 * i}
        | {"code_perplexity_s0": 0.3, "code_perplexity_s1": 0.2 * i}
        for i in (1, 2)
    ]
    before = [Probe(0, 0.1, 0.2, 1.0, "random"), Probe(0, 0.5, 0.6, 1.0, "supervised")]
    probes = [*before, Probe(4, 0.4, 0.3, 1.0, "trained")]
    figure = draw_health(records, probes)
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert list(panels) == ["embedding spread", "code perplexity / K", "mAP of the probes, %"]
    (spread,) = panels["embedding spread"].lines
    assert list(spread.get_xdata()) == [2.0, 4.0]
    assert list(spread.get_ydata()) == [0.1, 0.2]
    (band,) = panels["embedding spread"].collections
    # The whole training takes eight epochs.
    assert band.get_paths()[0].get_extents().x1 == pytest.approx(8.0)
    assert band.get_paths()[0].get_extents().y1 == max(band_of("embedding_spread").highest)
    labels = [line.get_label() for line in panels["code perplexity / K"].lines]
    assert labels == ["image", "level 1"]
    linear, knn, supervised = panels["mAP of the probes, %"].lines
    assert list(linear.get_ydata()) == [10, 40]
    assert list(knn.get_ydata()) == [20, 30]
    assert supervised.get_label() == "linear, supervised weights"
    assert list(supervised.get_xdata()) == [0, 4]
    assert list(supervised.get_ydata()) == [50, 50]
    assert draw_health([{"epochs_done": 1.0, "progress": 0.5, "lr": 0.1}]) is None


def test_scalars_have_names_in_words():
    assert scalar_name("relative_cross_s2") == "cross loss / chance, level 2"
    assert scalar_name("prototypes_in_use_s0") == "prototypes in use, image"
    assert scalar_name("effective_rank") == "effective rank"
