import pytest
import torch
from helpers.datasets.image_folders import save
from helpers.engine.logs import write_log
from helpers.pretraining.paces import stub_pace
from helpers.reporting.report_pages import Page
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.pretraining import start
from mmssprl.reporting import write_figures, write_report
from mmssprl.weights.backbone import build_model

NUM_LINES = 8


def write_losses(run, model):
    """A log of eight epochs, whose losses fall to half of their value at chance."""
    lines = []
    for epoch in range(1, NUM_LINES + 1):
        done = epoch / NUM_LINES
        line = {"lr": 0.1, "step": 8 * epoch, "epoch": epoch, "epochs_done": epoch}
        line |= {"time": 1.0, "data_time": 0.1, "embedding_spread": 0.5, "effective_rank": 20.0}
        line |= {"alignment": 0.8, "alignment_others": 0.3, "memory": 1000, "progress": done}
        for name, term in model.loss_terms().items():
            line[name] = term.weight * term.chance * (1 - done / 2)
            line[name.replace("loss", "relative")] = 1 - done / 2
        lines.append(line)
    write_log(run, lines)


TITLES = {"swav": "SwAV", "ssprl": "SS-PRL", "byol": "BYOL", "maskco": "MaskCo"}


@pytest.mark.parametrize("method", TITLES)
def test_a_method_is_reported_with_what_it_has(method, tmp_path, monkeypatch, capsys):
    for i in range(8):
        save(tmp_path / "photos" / f"{i}.png", 30 * i, (40, 48))
    stub_pace(monkeypatch)
    monkeypatch.setattr(start, "train_config", lambda *arguments, **options: None)
    run = tmp_path / "run"
    words = ["pretrain", str(tmp_path / "photos"), "--work-dir", str(run), "--method", method]
    words += ["--backbone", "resnet18", "--image-px", "32", "--epochs", str(NUM_LINES)]
    assert main(words) == 0
    assert "warning: no report" in capsys.readouterr().out
    model = build_model(Config.fromfile(run / f"{method}_resnet18.py").model.to_dict())
    write_losses(run, model)
    checkpoint = {"meta": {"iter": 8, "epoch": 8}, "state_dict": model.state_dict()}
    torch.save(checkpoint, run / "epoch_8.pth")
    (run / "last_checkpoint").write_text(str(run / "epoch_8.pth"))
    page = Page(write_report(run))
    prototypes = method in ("swav", "ssprl")
    assert page.sections() == [
        *("summary", "recipe", "curves", "health", "views", "neighbors", "next"),
    ]
    assert page.text("summary").startswith("Healthy: ")
    assert "stopped before its end" in page.text("summary")
    assert ("must be in use" in page.text("health")) == prototypes
    assert TITLES[method] in page.text("header")
    links = [link["href"].removeprefix("#") for link in page.of("a")]
    assert links == [name for name in page.sections() if name != "summary"]
    if prototypes:
        write_figures(run, tmp_path / "figures.html")
        titles = [image["alt"] for image in Page(tmp_path / "figures.html").of("img")]
        # The paper's figures are of SS-PRL.
        number = {"swav": "", "ssprl": "Figure 1: "}[method]
        assert titles[0].startswith(number + TITLES[method])
        assert titles[1].startswith(number.replace("1", "2") + "Prototypes of the image")
    else:
        with pytest.raises(ValueError, match="figures need the prototypes.*`report`"):
            write_figures(run, tmp_path / "figures.html")
