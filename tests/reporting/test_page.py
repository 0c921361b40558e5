"""The page of a finished pre-training: complete, safe, and right."""

import base64
import io
import json
import re
import shlex
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from helpers.reporting.report_pages import Page
from mmengine.config import Config
from mmengine.device import get_device
from PIL import Image

import mmssprl
from mmssprl.cli import build_parser
from mmssprl.config.run_config import run_config
from mmssprl.drawing.style import SCALES
from mmssprl.probing.probe_file import Probe, propose, read_probes
from mmssprl.reporting.page import look_at_images
from mmssprl.reporting.run import read_run
from mmssprl.reporting.summary import console_lines, facts, next_commands, verdict


@pytest.fixture(scope="module")
def page(trained):
    return Page(trained[0] / "report.html")


def test_a_pretraining_ends_with_its_page(trained):
    work_dir, said, _ = trained
    assert f"report: {work_dir / 'report.html'}\n" in said


def test_nothing_on_a_page_runs(page):
    assert {name for name, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object"})
    keys = chain.from_iterable(attributes for _, attributes in page.tags)
    assert not [key for key in keys if key.startswith("on")]


def test_nothing_of_a_page_is_fetched(page):
    text = page.path.read_text()
    assert not re.search(r"url\(|@import|https?://", text)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    header = f'http-equiv="Content-Security-Policy" content="{policy}'
    assert text.index(header) < text.index("<style>")
    assert len(text) < 3_000_000


def test_links_lead_to_sections(page):
    targets = {f"#{found['id']}" for _, found in page.tags if "id" in found}
    assert {link["href"] for link in page.of("a")} <= targets


def test_the_summary_has_the_last_line_of_the_log(trained, page):
    work_dir, _, photos = trained
    text = page.text("summary")
    run = read_run(work_dir)
    assert "epochs 3 of 3 9 steps" in text
    without_the_last = replace(run, records=[r for r in run.records if r["step"] < 8])
    assert facts(without_the_last)[0].remark == "9 steps"
    device = "a CPU" if get_device() == "cpu" else re.escape(torch.cuda.get_device_name())
    assert re.search(rf"time \d+ s on {device} ", text)
    assert f"12 images of {photos.name}" in page.text("header")


def test_the_last_probe_is_next_to_random_weights(trained, page):
    start, *_, last = (100 * each.linear_mAP for each in read_probes(trained[0] / "probe.csv"))
    text = page.text("summary")
    assert f"last probe mAP {last:.1f} % random weights: {start:.1f} %, " in text
    assert re.search(rf" its start(:| by) {re.escape(f'{last - start:+.1f}')} ± ", text)


def test_a_probe_is_next_to_each_of_several_starts(trained):
    before = [Probe(0, 0.2, name, mIoU=0.05) for name in ("start", "random", "supervised")]
    run = replace(read_run(trained[0]), probes=[*before, Probe(1, 0.3, mIoU=0.075)])
    linear, dense = (fact for fact in facts(run) if "probe" in fact.name)
    assert (linear.value, linear.remark.count("20.0 %")) == ("30.0 %", 3)
    assert linear.remark.endswith("one seed, nothing follows")
    assert (dense.value, dense.remark.count(": 5.0 %")) == ("7.5 %", 3)


START = Probe(0, 0.2, "start")
HALVES = Probe(0, None, "start", other_half=0.5)
FALLEN = [Probe(1, 0.3, interval=0.1), Probe(2, 0.4, interval=0.1)]


def healthy(run, probes):
    """A run with a healthy log, and other probes."""
    diagnosis = run.diagnosis._replace(verdict="healthy", lines=["8 lines", "healthy: no sign"])
    return replace(run, probes=probes, diagnosis=diagnosis)


@pytest.mark.parametrize(
    ("probes", "tone", "words"),
    [
        ([], "good", "Only labels tell how good the features are"),
        ([START], "good", "The next commands"),
        ([START, Probe(1, 0.22, interval=0.022)], "unsure", "gains 2.0 ± 2.2 points of linear mAP"),
        ([START, Probe(1, 0.23, interval=0.022)], "good", "gains 3.0 ± 2.2 points"),
        # A run that rises and falls is judged by its last probe.
        ([START, *FALLEN, Probe(3, 0.16, interval=0.05)], "unsure", "gains -4.0 ± 5.0 points"),
        ([START, *FALLEN, Probe(3, 0.16, interval=0.02)], "bad", "loses 4.0 ± 2.0 points"),
        ([START, Probe(1, 0.282)], "good", "28.2 %, 20.0 % before the training; one seed, nothing"),
        (
            [HALVES, Probe(1, other_half=0.5, interval=0.1)],
            "unsure",
            "points of other halves found.",
        ),
    ],
)
def test_a_gain_is_judged_by_the_interval_of_the_last_probe(trained, probes, tone, words):
    found = verdict(healthy(read_run(trained[0]), probes))
    assert found.tone == tone
    assert words in found.words[0]


@pytest.mark.parametrize(
    "probes",
    [
        [START, *FALLEN, Probe(3, 0.16, interval=0.05)],
        [START, Probe(1, 0.282)],
        [HALVES, Probe(1, other_half=0.6, interval=0.1)],
    ],
)
def test_the_last_probe_is_next_to_the_first(trained, probes):
    found = facts(healthy(read_run(trained[0]), probes))
    (fact,) = (fact for fact in found if fact.name.startswith(("last", "other")))
    assert fact.value == f"{100 * probes[-1].score:.1f} %"
    assert fact.remark.startswith(f"the weights it began with: {100 * probes[0].score:.1f} %")


@pytest.mark.parametrize(
    ("start", "advice"),
    [
        ("own.pth", "Keep the weights it began with"),
        ("random", "the random ones of the start: do not use"),
    ],
)
def test_a_probe_that_ends_worse_is_trouble(trained, start, advice):
    run = healthy(read_run(trained[0]), [START, Probe(1, 0.1, interval=0.02)])
    cfg = Config({**run.cfg.to_dict(), "weights": start}, filename=run.cfg.filename)
    run = replace(run, cfg=cfg)
    answer = verdict(run)
    assert (answer.tone, answer.headline) == ("bad", "Trouble: worse than its start")
    length, line = console_lines(run, answer)
    assert length == "8 lines"
    assert line.startswith("trouble: The last probe loses 10.0 ± 2.0 points.")
    assert advice in line


def test_the_recipe_has_the_reasons_that_were_printed(trained, page):
    work_dir, said, _ = trained
    recipe = json.loads((work_dir / "recipe.json").read_text())
    warnings = [f"arning: {warning}" for warning in recipe["warnings"]]
    lines = [*map(" ".join, recipe["rows"]), *warnings]
    assert len(lines) > len(warnings) > 0
    for text in (" ".join(said.split()), page.text("recipe")):
        assert [line for line in lines if line not in text] == []


def test_every_picture_shows_something(page):
    sources = [image["src"].split(";base64,") for image in page.of("img")]
    kinds = [kind.removeprefix("data:image/") for kind, _ in sources]
    assert kinds == ["svg+xml", "svg+xml", "jpeg", "jpeg"]
    found = [base64.b64decode(data) for _, data in sources]
    assert all(f"stroke: {SCALES[0]}".encode() in curves for curves in found[:2])
    photographs = [Image.open(io.BytesIO(data)).convert("L") for data in found[2:]]
    assert min(np.asarray(each, np.float32).std() for each in photographs) > 5


def test_neighbours_are_those_of_the_command(trained):
    work_dir, _, photos = trained
    weights = work_dir / "ssprl_timm-test_resnet_backbone.pth"
    found = mmssprl.neighbors(weights, photos, photos, num=5)
    figure = look_at_images(read_run(work_dir))["neighbors"]
    grid = np.array(figure.axes).reshape(5, 6)
    for row, query in zip(grid, (0, 3, 6, 8, 11), strict=True):
        near = found[5 * query : 5 * query + 5]
        titles = [axes.get_title(loc="left") for axes in row]
        assert titles == ["query", *(f"{each.cosine:.3f}" for each in near)]
        names = [axes.texts[0].get_text()[-10:] for axes in row]
        assert names == [near[0].query[-10:], *(each.nearest[-10:] for each in near)]


def test_only_resnets_are_offered_other_tasks(run):
    (run / "probe.csv").unlink()
    trained = read_run(run)
    for kind, words in (("TimmBackbone", "your_network.md"), ("ResNet", "other tasks are detect")):
        trained.cfg.model.backbone.type = kind
        purpose, command = next_commands(trained, "photos", "photos/0.jpg")[0]
        assert "--task classify" in command
        assert words in purpose


def test_the_commands_can_be_pasted(trained, page):
    work_dir, _, photos = trained
    file = work_dir / "ssprl_timm-test_resnet_backbone.pth"
    taken, is_worth = propose(file, run_config(work_dir))
    parser = build_parser()
    names = []
    for line in page.commands:
        assert "\n" not in line
        program, flag, package, *words = shlex.split(line)
        assert (program, flag, package) == ("python", "-m", "mmssprl")
        args = parser.parse_args(words)
        names.append(words[0])
        given = getattr(args, "weights", getattr(args, "checkpoint", None))
        if given is not None:
            (weights, *_) = given if isinstance(given, list) else [given]
            assert (work_dir / weights).samefile(taken)
        assert (work_dir / getattr(args, "dir", photos)).samefile(photos)
        assert (work_dir / getattr(args, "query", photos)).exists()

    tune = ["finetune"] if is_worth else []
    others = ["probe", "embed", "select", "neighbors", "export", "report"]
    assert names == [*tune, *others]
