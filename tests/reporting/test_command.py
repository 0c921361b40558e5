"""What `report` and `visualize figures` do with runs in any state."""

import json
import re
import shutil

import pytest
from helpers.reporting.report_pages import Page

from mmssprl.cli import main
from mmssprl.reporting import page as report_page
from mmssprl.reporting import report_run, write_report
from mmssprl.reporting.run import read_run

pytestmark = pytest.mark.usefixtures("no_pictures")
FIGURES = [1, 2, 2, 2, 3, 3]
"""Numbers of the paper's figures of a run with two levels, in their order."""


def collapse(run):
    """Rewrite the log of a run: all images have nearly the same embedding."""
    (log,) = run.glob("*/vis_data/scalars.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    collapsed = {"embedding_spread": 0.01, "effective_rank": 1.2}
    log.write_text("".join(json.dumps({**line, **collapsed}) + "\n" for line in lines))


def test_nothing_acts_in_the_name_of_a_run(run):
    renamed = run.rename(run.with_name("a\u202eb\x1b[2J"))
    text = write_report(renamed).read_text()
    assert "<h1>a\\u202eb\\x1b[2J</h1>" in text
    assert not set(text) & set("\u202e\x1b")


@pytest.fixture(scope="module")
def collapsed(trained, tmp_path_factory):
    """The page of a run of `train` that collapsed before its first checkpoint."""
    run = shutil.copytree(trained[0], tmp_path_factory.mktemp("collapsed") / "run")
    for path in [*run.glob("*.pth"), run / "last_checkpoint"]:
        path.unlink()
    for name in ("recipe.json", "run.json"):
        (run / name).unlink()
    collapse(run)
    return Page(write_report(run))


def test_a_collapse_is_the_first_thing_on_the_page(collapsed):
    text = collapsed.text("summary")
    assert text.startswith("Trouble: collapsed ")
    assert "optim_wrapper.optimizer.weight_decay" in text
    assert "epochs 3.0 of 3" in text
    assert ("section", {"id": "summary", "class": "answer bad"}) in collapsed.tags


def test_a_run_without_a_checkpoint_has_no_neighbours(collapsed):
    assert collapsed.sections()[4:] == ["views", "next", "left-out"]
    assert "no checkpoint yet" in collapsed.text("left-out")


def test_a_run_of_train_is_resumed_by_train(collapsed):
    assert "its own config" in collapsed.text("recipe")
    resume, again = collapsed.commands
    assert "mmssprl train " in resume
    assert resume.endswith(" --work-dir=. --resume")
    assert again.endswith("mmssprl report .")


@pytest.fixture(scope="module")
def stopped(trained, tmp_path_factory):
    """The page of a run without its last file, of which 6 of the 12 images are read."""
    run = shutil.copytree(trained[0], tmp_path_factory.mktemp("stopped") / "run")
    (run / "ssprl_timm-test_resnet_backbone.pth").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_page, "SAMPLE", 6)
        return Page(write_report(run))


def test_a_stopped_run_proposes_the_weights_of_its_best_probe(stopped):
    assert "stopped before its end" in stopped.text("summary")
    assert "mmssprl pretrain " in stopped.commands[0]
    name = "ssprl_timm-test_resnet_best_backbone.pth"
    assert any(f"probe {name} " in line for line in stopped.commands)


def test_a_part_of_many_images_is_searched(stopped):
    assert "6 of the 12 images" in stopped.text("neighbors")


def test_images_that_have_moved_are_given_again(run, trained, tmp_path):
    moved = shutil.copytree(trained[2], tmp_path / "moved")
    (config,) = run.glob("*.py")
    config.write_text(config.read_text().replace(str(trained[2]), str(tmp_path / "gone")))
    assert main(["report", str(run)]) == 0
    page = Page(run / "report.html")
    assert "views" not in page.sections()
    assert "gone; correct the path" in page.text("left-out")

    assert main(["report", str(run), "--images", str(moved)]) == 0
    assert "left-out" not in Page(run / "report.html").sections()


@pytest.fixture
def without_images(run, monkeypatch):
    """A run of which only the log is looked at."""
    look = "mmssprl.reporting.page.look_at_images"
    monkeypatch.setattr(look, lambda *_, **__: {"left_out": []})
    return run


def test_the_verdict_is_printed(without_images, capsys):
    assert main(["report", str(without_images)]) == 0
    length, words, page = capsys.readouterr().out.splitlines()
    assert length == "trained: 3.0 of 3 epochs of 12 images"
    assert words.startswith("too short to tell")
    assert page == f"report: {without_images / 'report.html'}"


def test_a_run_that_is_extended_is_not_finished_before_its_export(run):
    record = json.loads((run / "run.json").read_text())
    record["starts"].append({**record["starts"][-1], "ended": False})
    (run / "run.json").write_text(json.dumps(record))
    (log,) = run.glob("*/vis_data/scalars.json")
    lines = log.read_text().splitlines(keepends=True)
    steps = [line for line in lines if '"lr"' in line]
    # Every second one of nine steps has a line, so the last has none.
    log.write_text("".join(steps[1::2]))

    found = read_run(run)
    assert not found.is_finished
    assert found.weights == run / "epoch_3.pth"
    assert found.diagnosis.lines[0].startswith("trained: 2.7 of 3 epochs")


def test_an_older_page_is_replaced(without_images):
    (without_images / "report.html").write_text("old")
    assert main(["report", str(without_images)]) == 0
    assert (without_images / "report.html").read_text().startswith("<!doctype html>")


def test_trouble_is_the_exit_status(without_images, capsys):
    collapse(without_images)
    assert main(["report", str(without_images)]) == 1
    assert "\ntrouble: all images have had nearly the same embedding" in capsys.readouterr().out


def test_train_ends_with_a_report(run, monkeypatch, capsys):
    monkeypatch.setattr("mmssprl.engine.launch.launch", lambda *_, **__: None)
    monkeypatch.setattr("mmssprl.saving.run_files.finished_weights", lambda cfg: None)
    (config,) = run.glob("*.py")
    assert main(["train", str(config), "--work-dir", str(run), "--resume"]) == 0
    assert "\ntoo short to tell" in (out := capsys.readouterr().out)
    assert out.endswith(f"\nreport: {run / 'report.html'}\n")


@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()])
def test_a_report_that_fails_does_not_fail_the_training(error, monkeypatch, tmp_path):
    def fail(work_dir):
        raise error

    monkeypatch.setattr("mmssprl.reporting.page.make_report", fail)
    lines = []
    report_run(tmp_path / "a run", lines.append)
    (line,) = lines
    assert (str(error) or "KeyboardInterrupt") in line
    assert f"python -m mmssprl report '{tmp_path / 'a run'}'" in line


def test_the_figures_of_a_run_are_on_one_page(trained, tmp_path, capsys):
    out = tmp_path / "figures.html"
    assert main(["visualize", "figures", str(trained[0]), str(out)]) == 0
    assert capsys.readouterr().out == f"page: {out}\n"
    page = Page(out)
    titles = [image["alt"].partition(": ") for image in page.of("img")]
    assert [title for title, _, _ in titles] == [f"Figure {number}" for number in FIGURES]
    assert titles[0][2] == "SS-PRL (paper)"
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.of("img"))
    assert "12 images" in page.texts["head"]


def test_a_page_of_figures_is_not_replaced_unasked(trained, tmp_path, capsys):
    out = tmp_path / "figures.html"
    out.write_text("mine")
    assert main(["visualize", "figures", str(trained[0]), str(out)]) == 2
    assert "figures.html" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_an_unreadable_image_costs_its_figure_alone(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("mmssprl.reporting.figures.data_uri", lambda picture, kind: "data:")
    photos = shutil.copytree(trained[2], tmp_path / "photos")
    min(photos.rglob("*.jpg")).write_bytes(b"")
    out = tmp_path / "figures.html"
    assert main(["visualize", "figures", str(trained[0]), str(out), "--images", str(photos)]) == 0
    assert len(Page(out).of("img")) == len(FIGURES) - 1
    assert re.search(r"SS-PRL.* could not be drawn: ", out.read_text())
