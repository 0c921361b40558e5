import pytest
from helpers.engine.logs import write_log
from helpers.reporting.tiny_views import write_config

from mmssprl.models import SSPRL, PyramidDistillation
from mmssprl.probing.hook import Probe
from mmssprl.reporting.pictures import draw_losses
from mmssprl.reporting.pictures.curves import draw_health


def test_folders_without_losses_or_a_pretraining_are_named(tmp_path):
    config = write_config(tmp_path, "")
    write_log(tmp_path, [{"lr": 0.1, "loss": 1.0, "step": 1}])
    with pytest.raises(ValueError, match=r"\['loss', 'lr', 'step'\]"):
        draw_losses(tmp_path)
    config.write_text("model = dict()")
    with pytest.raises(ValueError, match=r"pre-training model.*tiny_views\.py"):
        draw_losses(tmp_path)


PANELS, OF_TEACHER = SSPRL.health_panels, PyramidDistillation.health_panels


def test_panels_are_of_what_the_log_has():
    records = [
        {"epochs_done": 2.0 * i, "progress": i / 4, "lr": 0.1, "embedding_spread": 0.1 * i}
        | {"code_perplexity_s0": 0.3, "code_perplexity_s1": 0.2 * i}
        for i in (1, 2)
    ]
    before = [Probe(0, 0.1, "random"), Probe(0, 0.5, "supervised")]
    probes = [*before, Probe(4, 0.4, "trained")]
    figure = draw_health(records, PANELS, probes)
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert list(panels) == ["embedding spread", "code perplexity / K", "mAP of the probes, %"]
    (spread,) = panels["embedding spread"].lines
    assert spread.get_xydata().tolist() == [[2, 0.1], [4, 0.2]]
    labels = [line.get_label() for line in panels["code perplexity / K"].lines]
    assert labels == ["image", "level 1"]
    linear, supervised = panels["mAP of the probes, %"].lines
    assert linear.get_xydata().tolist() == [[0, 10], [4, 40]]
    assert supervised.get_label() == "linear, supervised weights"
    assert supervised.get_xydata().tolist() == [[0, 50], [4, 50]]
    halves = [Probe(0, None, "start", other_half=0.5), Probe(0, None, "random", other_half=0.4)]
    *_, axes = draw_health(records, PANELS, [*halves, Probe(4, other_half=0.6)]).axes
    assert axes.get_title(loc="left") == "other halves found, %"
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["found", "found, start weights", "found, random weights"]
    assert draw_health([{"epochs_done": 1.0, "progress": 0.5, "lr": 0.1}], PANELS) is None
    names = ["cosine_distill_s0", "cosine_shuffled_distill_s0", "cosine_distill_s1", "cosine_cells"]
    (axes,) = draw_health([{"epochs_done": 1.0, **dict.fromkeys(names, 0.1)}], OF_TEACHER).axes
    assert axes.get_title(loc="left") == "cosine to the teacher"
    assert [line.get_label() for line in axes.lines] == ["image", "another image", "cells"]
    assert axes.get_ylim()[0] == 0
    (axes,) = draw_health([{"epochs_done": 1.0, "cosine_cells": -0.1}], OF_TEACHER).axes
    assert axes.get_ylim()[0] < -0.1
