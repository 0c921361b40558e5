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


PANELS = SSPRL.health_panels
OF_TEACHER = PyramidDistillation.health_panels
RECORDS = [
    {"epochs_done": 2.0 * i, "progress": i / 4, "lr": 0.1, "embedding_spread": 0.1 * i}
    | {"code_perplexity_s0": 0.3, "code_perplexity_s1": 0.2 * i}
    for i in (1, 2)
]


def labels_of(axes):
    return [line.get_label() for line in axes.lines]


def test_panels_of_health_are_of_what_the_log_has():
    panels = {axes.get_title(loc="left"): axes for axes in draw_health(RECORDS, PANELS).axes}
    assert [*panels] == ["embedding spread", "code perplexity / K"]
    (spread,) = panels["embedding spread"].lines
    assert spread.get_xydata().tolist() == [[2, 0.1], [4, 0.2]]
    assert labels_of(panels["code perplexity / K"]) == ["image", "level 1"]


def test_a_log_without_health_has_no_panels():
    assert draw_health([{"epochs_done": 1.0, "progress": 0.5, "lr": 0.1}], PANELS) is None


def test_probes_begin_at_random_weights():
    probes = [Probe(0, 0.1, "random"), Probe(0, 0.5, "supervised"), Probe(4, 0.4, "trained")]
    *_, axes = draw_health(RECORDS, PANELS, probes).axes
    assert axes.get_title(loc="left") == "mAP of the probes, %"
    assert labels_of(axes) == ["linear", "linear, supervised weights"]
    linear, supervised = axes.lines
    assert linear.get_xydata().tolist() == [[0, 10], [4, 40]]
    assert supervised.get_xydata().tolist() == [[0, 50], [4, 50]]


def test_probes_without_labels_are_of_halves():
    halves = [Probe(0, None, "start", other_half=0.5), Probe(0, None, "random", other_half=0.4)]
    *_, axes = draw_health(RECORDS, PANELS, [*halves, Probe(4, other_half=0.6)]).axes
    assert axes.get_title(loc="left") == "other halves found, %"
    assert labels_of(axes) == ["found", "found, start weights", "found, random weights"]


def test_cosines_to_the_teacher_are_in_one_panel():
    names = ["cosine_distill_s0", "cosine_shuffled_distill_s0", "cosine_distill_s1", "cosine_cells"]
    (axes,) = draw_health([{"epochs_done": 1.0, **dict.fromkeys(names, 0.1)}], OF_TEACHER).axes
    assert axes.get_title(loc="left") == "cosine to the teacher"
    assert labels_of(axes) == ["image", "another image", "cells"]
    assert axes.get_ylim()[0] == 0


def test_a_negative_cosine_is_in_its_panel():
    (axes,) = draw_health([{"epochs_done": 1.0, "cosine_cells": -0.1}], OF_TEACHER).axes
    assert axes.get_ylim()[0] < -0.1


def test_names_of_curves_are_below_them():
    figure = draw_health(RECORDS, PANELS)
    figure.draw_without_rendering()
    *_, axes = figure.axes
    names = axes.get_legend().get_window_extent()
    assert names.y1 < axes.xaxis.label.get_window_extent().y0
    assert names.x1 < figure.bbox.x1
