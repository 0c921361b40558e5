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


def losses_of(model, share):
    """Each term at a share of its value at chance."""
    found = {}
    for name, term in model.loss_terms().items():
        found[name] = term.weight * term.chance * share
        found[name.replace("loss", "relative")] = share
    return found


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("method", ["swav", "ssprl", "byol", "maskco"])
def test_a_method_is_reported_with_what_it_has(method, tmp_path, monkeypatch, capsys):
    for i in range(8):
        save(tmp_path / "photos" / f"{i}.png", 30 * i, (40, 48))
    stub_pace(monkeypatch)
    monkeypatch.setattr("mmssprl.runs.start.train_config", lambda *_, **options: None)
    run = tmp_path / "run"
    words = ["pretrain", str(tmp_path / "photos"), "--work-dir", str(run), "--method", method]
    assert main([*words, "--backbone", "resnet18", "--image-px", "32", "--epochs", "8"]) == 0
    assert "warning: no report" in capsys.readouterr().out
    model = build_model(Config.fromfile(run / f"{method}_resnet18.py").model.to_dict())
    records = [
        {"lr": 0.1, "step": 8 * i, "epoch": i, "epochs_done": i, "progress": i / 8, **SPREAD}
        | {"alignment_others": 0.3, **losses_of(model, 1 - i / 16)}
        for i in range(1, 9)
    ]
    write_log(run, records)
    checkpoint = {"meta": {"iter": 8, "epoch": 8}, "state_dict": model.state_dict()}
    torch.save(checkpoint, run / "epoch_8.pth")
    (run / "last_checkpoint").write_text(str(run / "epoch_8.pth"))
    page = Page(write_report(run))
    sections = ["summary", "recipe", "curves", "health", "views", "neighbors", "next"]
    assert page.sections() == sections
    assert page.text("summary").startswith("Healthy: ")
    assert "stopped before its end" in page.text("summary")
    prototypes, title = method in ("swav", "ssprl"), find_method(method).title
    assert ("must be in use" in page.text("health")) == prototypes
    assert title in page.text("header")
    assert [link["href"] for link in page.of("a")] == [f"#{name}" for name in sections[1:]]
    figure = draw_losses(run)
    figure.canvas.draw()  # reads the formulas of the titles
    panels = [axes for axes in figure.axes if axes.get_visible()]
    curves = {axes.get_title(loc="left"): axes.lines for axes in panels}
    assert curves.pop("learning rate")[0].get_ydata().tolist() == [0.1] * 8
    for line, chance in curves.values():
        assert line.get_ydata().tolist() == [1 - i / 16 for i in range(1, 9)]
        assert chance.get_ydata()[0] == 1
    if not prototypes:
        with pytest.raises(ValueError, match="figures need the prototypes.*`report`"):
            write_figures(run, tmp_path / "figures.html")
        return
    monkeypatch.setattr("mmssprl.reporting.figures.data_uri", lambda picture, kind: "data:")
    write_figures(run, tmp_path / "figures.html")
    titles = [image["alt"] for image in Page(tmp_path / "figures.html").of("img")]
    if method == "ssprl":
        scales, symbols = ("image", "level 1", "level 2"), ("L_{pyr}", "L_{cross}")
        assert [*curves] == [f"${symbol}$, {scale}" for symbol in symbols for scale in scales]
    # The paper's figures are of SS-PRL.
    first, second = ("Figure 1: ", "Figure 2: ") if method == "ssprl" else ("", "")
    assert titles[:2] == [f"{first}{title}", f"{second}Prototypes of the image"]
