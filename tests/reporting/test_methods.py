"""A method is reported with what it has: prototypes, levels, its own loss terms."""

from pathlib import Path

import pytest
import torch
from helpers.datasets.image_folders import save
from helpers.engine.logs import write_log
from helpers.pretraining.paces import stub_pace
from helpers.reporting.report_pages import Page
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.pretraining.methods import find_method
from mmssprl.reporting import write_figures, write_report
from mmssprl.reporting.pictures import draw_losses
from mmssprl.weights.backbone import build_model

SPREAD = {"embedding_spread": 0.5, "effective_rank": 20.0, "alignment": 0.8}
WITH_PROTOTYPES = ("swav", "ssprl")


def losses_of(model, share):
    """Each term at a share of its value at chance."""
    found = {}
    for name, term in model.loss_terms().items():
        found[name] = term.weight * term.chance * share
        found[name.replace("loss", "relative")] = share
    return found


def write_training(run, model):
    """Write the log and the checkpoint of eight epochs."""
    records = [
        {"lr": 0.1, "step": 8 * i, "epoch": i, "epochs_done": i, "progress": i / 8, **SPREAD}
        | {"alignment_others": 0.3, **losses_of(model, 1 - i / 16)}
        for i in range(1, 9)
    ]
    write_log(run, records)
    checkpoint = {"meta": {"iter": 8, "epoch": 8}, "state_dict": model.state_dict()}
    torch.save(checkpoint, run / "epoch_8.pth")
    (run / "last_checkpoint").write_text(str(run / "epoch_8.pth"))


@pytest.fixture(scope="module", params=["swav", "ssprl", "byol", "maskco"])
def method(request):
    return request.param


@pytest.fixture(scope="module")
def method_run(method, tmp_path_factory):
    """The work dir of a method, with a log and a checkpoint that nobody trained."""
    folder = tmp_path_factory.mktemp(method)
    for i in range(8):
        save(folder / "photos" / f"{i}.png", 30 * i, (40, 48))
    run = folder / "run"
    words = ["pretrain", str(folder / "photos"), "--work-dir", str(run), "--method", method]
    with pytest.MonkeyPatch.context() as patch:
        stub_pace(patch)
        patch.setattr("mmssprl.runs.start.train_config", lambda *_, **options: None)
        assert main([*words, "--backbone", "resnet18", "--image-px", "32", "--epochs", "8"]) == 0
    assert not (run / "report.html").exists(), "there was no log yet"
    cfg = Config.fromfile(run / f"{method}_resnet18.py")
    write_training(run, build_model(cfg.model.to_dict()))
    return run


def alts(page: Path):
    return [image["alt"] for image in Page(page).of("img")]


@pytest.mark.usefixtures("no_pictures")
def test_the_page_has_the_sections_of_a_stopped_run(method, method_run):
    page = Page(write_report(method_run))
    sections = ["summary", "recipe", "curves", "health", "views", "neighbors", "next"]
    assert page.sections() == sections
    assert [link["href"] for link in page.of("a")] == [f"#{name}" for name in sections[1:]]
    assert page.text("summary").startswith("Healthy: ")
    assert "stopped before its end" in page.text("summary")
    assert find_method(method).title in page.text("header")
    assert ("must be in use" in page.text("health")) == (method in WITH_PROTOTYPES)


def test_curves_are_shares_of_the_value_at_chance(method, method_run):
    figure = draw_losses(method_run)
    figure.canvas.draw()  # reads the formulas of the titles
    panels = [axes for axes in figure.axes if axes.get_visible()]
    curves = {axes.get_title(loc="left"): axes.lines for axes in panels}
    assert curves.pop("learning rate")[0].get_ydata().tolist() == [0.1] * 8
    for line, chance in curves.values():
        assert line.get_ydata().tolist() == [1 - i / 16 for i in range(1, 9)]
        assert chance.get_ydata()[0] == 1
    if method == "ssprl":
        scales = ("image", "level 1", "level 2")
        pyramid = [f"$L_{{pyr}}$, {scale}" for scale in scales]
        cross = [f"$L_{{cross}}$, {scale}" for scale in scales]
        assert [*curves] == pyramid + cross


def test_figures_need_prototypes(method, method_run, tmp_path, monkeypatch):
    out = tmp_path / "figures.html"
    if method not in WITH_PROTOTYPES:
        with pytest.raises(ValueError, match="figures need the prototypes.*`report`"):
            write_figures(method_run, out)
        return
    monkeypatch.setattr("mmssprl.reporting.figures.data_uri", lambda picture, kind: "data:")
    write_figures(method_run, out)
    # The paper's figures are of SS-PRL.
    first, second = ("Figure 1: ", "Figure 2: ") if method == "ssprl" else ("", "")
    title = find_method(method).title
    assert alts(out)[:2] == [f"{first}{title}", f"{second}Prototypes of the image"]
