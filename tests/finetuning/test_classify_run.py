import io
import json
import re
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.datasets.labelled_folders import write_class_folders, write_image, write_weights
from helpers.experiments.tiny_compare import rows as csv_rows
from helpers.reporting.report_pages import Page
from helpers.saving.stopped_runs import logged
from PIL import Image

from mmssprl.cli import main
from mmssprl.features.backbone import load_backbone
from mmssprl.pixels import IMAGENET_MEAN
from mmssprl.weights.description import find_description


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run, what was printed, and the folder of its data."""
    folder = tmp_path_factory.mktemp("classify")
    data = write_class_folders(folder / "my data", per_class=15)
    weights = write_weights(folder / "weights")
    argv = ["finetune", str(weights), str(data), "--task", "classify", "--epochs", "6"]
    argv += ["--work-dir", str(folder / "run"), "--image-px", "32", "--lr", "0.01"]
    with redirect_stdout(io.StringIO()) as console, redirect_stderr(console):
        assert main(argv) == 0
    return folder / "run", console.getvalue(), argv


def scores_of(run):
    return json.loads((run[0] / "scores.json").read_text())


def test_it_learns_to_classify(run):
    scores = scores_of(run)
    assert scores["accuracy"] > 80
    assert (scores["num_train"], scores["num_val"]) == (24, 6)
    assert f"val, last epoch: accuracy {scores['accuracy']:.1f} %" in run[1]


def test_its_checkpoints_are_described(run):
    for file in run[0].glob("*epoch_*.pth"):
        assert find_description(file) == run[0] / "classify_backbone.json"
    assert find_description(run[0] / "other.pth") is None
    assert load_backbone(str(file)).mean == IMAGENET_MEAN


def test_each_class_is_scored(run):
    assert set(scores_of(run)["per_class"]) == {"disc", "square"}
    rows = csv_rows(run[0] / "scores.csv")
    found = [(row["class"], row["train images"], row["val images"]) for row in rows]
    assert found == [("disc", "12", "3"), ("square", "12", "3")]


def test_each_epoch_is_a_line(run):
    text = run[1]
    epochs = re.findall(r"^epoch (\d)\.00/6  loss [\d.]+  .* images/s", text, re.MULTILINE)
    assert epochs == list("123456")
    assert re.search(r"^epoch 1\.00/6  val accuracy [\d.]+ %  the best so far$", text, re.MULTILINE)
    assert not any(name in text for name in ("site-packages", "mmengine", "mmcv", "Loading"))


def test_the_best_epoch_is_named(run):
    text = run[1]
    best = scores_of(run)["best"]
    found = [float(x) for x in re.findall(r"val accuracy ([\d.]+) %", text)]
    assert best["epoch"] == 1 + found.index(max(found))
    assert best["score"] == pytest.approx(max(found), abs=0.05)
    assert best["file"] == f"best_accuracy_top1_epoch_{best['epoch']}.pth"
    assert f"best epoch: {best['epoch']}, {best['score']:.1f} %" in text


def test_all_planned_updates_are_done(run):
    folder, text, _ = run
    planned = int(re.search(r" 6, (\d+) updates", text)[1])
    assert max(line["iter"] for line in logged(folder) if "loss" in line) == planned


def test_the_work_dir_holds_everything(run):
    folder, text, _ = run
    assert (folder / "classes.txt").read_text() == "disc\nsquare\n"
    best = json.loads((folder / "scores.json").read_text())["best"]["file"]
    assert {path.name for path in folder.glob("*.pth")} == {"epoch_6.pth", best}
    log = next(folder.glob("*/*.log")).read_text()
    assert "backbone weights: 90 tensors" in log
    assert "Epoch(val) [6]" in log
    sheet = Image.open(folder / "predictions.png")
    assert sheet.width > 2 * 48
    assert str(folder / "predictions.png") in text


def resume(run, weights=None, data=None):
    """Call `finetune --resume` for the run; return its exit code."""
    folder, _, argv = run
    words = [argv[0], weights or argv[1], data or argv[2], *argv[3:5]]
    return main([*words, "--work-dir", str(folder), "--resume"])


@contextmanager
def config_of(run, change):
    """Let the run have a changed config for a while."""
    path = run[0] / "classify.py"
    text = path.read_text()
    path.write_text(change(text))
    try:
        yield
    finally:
        path.write_text(text)


def test_a_used_work_dir_is_refused(run, capsys):
    assert main(run[2]) == 2
    assert "work_dir" in capsys.readouterr().err


def test_a_finished_run_is_scored_again_without_training(run, capsys):
    folder, _, argv = run
    before = (folder / "scores.json").read_text()
    trained = (folder / "epoch_6.pth").stat().st_mtime_ns
    assert resume(run, weights=str(Path(argv[1]).parent)) == 0  # in place of the file
    assert (folder / "scores.json").read_text() == before
    assert (folder / "epoch_6.pth").stat().st_mtime_ns == trained
    assert f"classes: as the run read them, in {folder / 'labels'};" in capsys.readouterr().out


def test_resuming_refuses_options_that_the_config_decides(run, capsys):
    assert main([*run[2], "--resume"]) == 2
    assert "leave epochs, lr, image_px out" in capsys.readouterr().err


def test_resuming_refuses_other_data(run, capsys):
    assert resume(run, data=str(run[0])) == 2
    assert "own data, /" in capsys.readouterr().err


def test_resuming_refuses_other_weights(run, capsys):
    assert resume(run, weights="random") == 2
    assert "own weights, /" in capsys.readouterr().err


def test_resuming_refuses_a_run_of_an_older_version(run, capsys):
    with config_of(run, lambda text: f"{text}\nfinetuning.pop('of_class')\n"):
        assert resume(run) == 2
    assert "is of an older version; start it in another work_dir" in capsys.readouterr().err


@pytest.fixture(scope="module")
def predicted(run, tmp_path_factory):
    """What `predict` writes and prints for four photographs and a broken one."""
    folder = tmp_path_factory.mktemp("predicted")
    photographs = folder / "photographs"
    for index, shape in enumerate((0, 1, 1)):
        write_image(photographs / f"day {index}" / "IMG.PNG", index + 50, (shape,))
    write_image(photographs / "day 0" / "IMG.jpg", 77, (0,))
    (photographs / "broken.jpg").write_bytes(b"\xff\xd8\xff no image")

    out = folder / "out"
    words = ["predict", str(run[0]), str(photographs), "--out", str(out), "--pictures", "3"]
    with redirect_stdout(io.StringIO()) as printed:
        assert main(words) == 0
    rows = csv_rows(out / "scores.csv")
    return SimpleNamespace(
        photographs=photographs, out=out, words=words, text=printed.getvalue(), rows=rows
    )


def test_predict_writes_the_scores_of_each_image(predicted):
    assert [row["image"] for row in predicted.rows] == [
        *("day 0/IMG.PNG", "day 0/IMG.jpg", "day 1/IMG.PNG", "day 2/IMG.PNG")
    ]
    assert [row["best"] for row in predicted.rows] == ["disc", "disc", "square", "square"]
    for row in predicted.rows:
        assert float(row["disc"]) + float(row["square"]) == pytest.approx(1, abs=2e-4)
    assert (predicted.out / "classes.txt").read_text() == "disc\nsquare\n"


def test_predict_draws_images_spread_over_all(predicted):
    pictures = predicted.out / "pictures"
    drawn = {path.relative_to(pictures).as_posix() for path in pictures.rglob("*.jpg")}
    assert drawn == {"day 0/IMG.jpg.jpg", "day 2/IMG.PNG.jpg"}  # broken.jpg is the third


def test_predict_lists_images_that_cannot_be_read(predicted):
    listed = (predicted.out / "bad_images.txt").read_text()
    assert "broken.jpg: must be a complete image" in listed
    assert "left out 1 unreadable images" in predicted.text


def test_predict_refuses_a_used_folder(predicted, capsys):
    assert main(predicted.words) == 2
    assert "out must be a new or empty folder" in capsys.readouterr().err


def test_predict_scores_one_image_by_a_checkpoint(run, predicted, tmp_path):
    image = str(predicted.photographs / "day 1" / "IMG.PNG")
    out = tmp_path / "one"
    words = [str(run[0] / "epoch_6.pth"), image, "--out", str(out), "--pictures", "0"]
    assert main(["predict", *words]) == 0
    (row,) = csv_rows(out / "scores.csv")
    assert row == {**predicted.rows[2], "image": "IMG.PNG"}
    assert not (out / "pictures").exists()


def test_predict_refuses_weights_of_another_command(run, predicted, tmp_path, capsys):
    out = tmp_path / "none"
    assert main(["predict", run[2][1], str(predicted.photographs), "--out", str(out)]) == 2
    assert "one of `finetune`" in capsys.readouterr().err
    assert not out.exists()


def test_predict_refuses_a_checkpoint_of_other_classes(run, tmp_path, capsys):
    def swapped(text):
        return text.replace("'disc'", "''").replace("'square'", "'disc'").replace("''", "'square'")

    write_image(tmp_path / "photographs" / "1.png", 50)
    out = tmp_path / "out"
    with config_of(run, swapped):
        assert main(["predict", str(run[0]), str(tmp_path / "photographs"), "--out", str(out)]) == 2
    assert "class 0 is 'disc' there and 'square' here" in capsys.readouterr().err
    assert not out.exists()


def by_mmcv(text):
    """The config of an older run, whose images mmcv reads."""
    older = text.replace("mmssprl.LoadImage", "LoadImageFromFile")
    assert older.count("LoadImageFromFile") >= 2
    return older


def test_a_run_with_a_config_for_mmcv_is_scored_as_before(run):
    before = (run[0] / "scores.json").read_text()
    with config_of(run, by_mmcv):
        assert resume(run) == 0
    assert (run[0] / "scores.json").read_text() == before


def test_a_run_with_a_config_for_mmcv_predicts_as_before(run, tmp_path):
    write_image(tmp_path / "photographs" / "1.png", 50)
    predict = ["predict", str(run[0]), str(tmp_path / "photographs"), "--pictures", "0", "--out"]
    assert main([*predict, str(tmp_path / "by ours")]) == 0
    with config_of(run, by_mmcv):
        assert main([*predict, str(tmp_path / "by mmcv")]) == 0
    found, wanted = (csv_rows(tmp_path / by / "scores.csv") for by in ("by mmcv", "by ours"))
    assert found == wanted


@pytest.fixture(scope="module")
def page(run):
    return Page(run[0] / "report.html")


def test_the_report_has_these_sections(run, page):
    assert f"report: {run[0] / 'report.html'}" in run[1]
    assert page.sections() == [
        *("summary", "recipe", "curves", "classes", "confusion", "pictures", "next")
    ]


def test_the_accuracy_follows_from_the_confusions(run, page):
    scores = scores_of(run)
    right = sum(row[i] for i, row in enumerate(scores["confusion"]))
    assert sum(map(sum, scores["confusion"])) == 6
    assert 100 * right / 6 == pytest.approx(scores["accuracy"])
    assert f"accuracy {scores['accuracy']:.1f} %" in page.text("summary")


def test_the_report_says_the_size_of_images(page):
    assert "32 px" in page.text("recipe")


def test_the_report_holds_its_pictures(page):
    images = page.of("img")
    assert images
    assert all(image["src"].startswith("data:image/") for image in images)


def test_the_command_report_makes_the_same_page(run):
    before = (run[0] / "report.html").read_text()
    assert main(["report", str(run[0])]) == 0
    made = re.compile("Made .* by")
    assert made.sub("", (run[0] / "report.html").read_text()) == made.sub("", before)
