import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.datasets.labelled_folders import write_class_folders, write_image, write_weights
from helpers.experiments.tiny_compare import rows as csv_rows
from helpers.reporting.report_pages import Page
from helpers.saving.stopped_runs import logged
from PIL import Image

from mmssprl.cli import main


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


def test_it_learns_scores_each_class_and_names_the_best_epoch(run):
    folder, text, _ = run
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["accuracy"] > 80
    assert (scores["num_train"], scores["num_val"]) == (24, 6)
    assert set(scores["per_class"]) == {"disc", "square"}
    rows = csv_rows(folder / "scores.csv")
    found = [(row["class"], row["train images"], row["val images"]) for row in rows]
    assert found == [("disc", "12", "3"), ("square", "12", "3")]
    assert f"val, last epoch: accuracy {scores['accuracy']:.1f} %" in text
    epochs = re.findall(r"^epoch (\d)\.00/6  loss [\d.]+  .* images/s", text, re.MULTILINE)
    assert epochs == list("123456")
    assert re.search(r"^epoch 1\.00/6  val accuracy [\d.]+ %  the best so far$", text, re.MULTILINE)
    best = scores["best"]
    found = [float(x) for x in re.findall(r"val accuracy ([\d.]+) %", text)]
    assert best["epoch"] == 1 + found.index(max(found))
    assert best["score"] == pytest.approx(max(found), abs=0.05)
    assert best["file"] == f"best_accuracy_top1_epoch_{best['epoch']}.pth"
    assert f"best epoch: {best['epoch']}, {best['score']:.1f} %" in text
    planned = int(re.search(r" 6, (\d+) updates", text)[1])
    assert max(line["iter"] for line in logged(folder) if "loss" in line) == planned
    assert not any(name in text for name in ("site-packages", "mmengine", "mmcv", "Loading"))


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


def test_a_finished_run_is_refused_or_scored_again_and_not_trained(run, capsys):
    folder, _, argv = run
    assert main(argv) == 2
    assert "work_dir" in capsys.readouterr().err
    before = (folder / "scores.json").read_text()
    trained = (folder / "epoch_6.pth").stat().st_mtime_ns
    weights = str(Path(argv[1]).parent)  # in place of the file
    assert main([argv[0], weights, *argv[2:5], "--work-dir", str(folder), "--resume"]) == 0
    assert (folder / "scores.json").read_text() == before
    assert (folder / "epoch_6.pth").stat().st_mtime_ns == trained
    assert main([*argv, "--resume"]) == 2
    assert "leave epochs, lr, image_px out" in capsys.readouterr().err
    for other, what in (([argv[1], str(folder)], "data"), (["random", argv[2]], "weights")):
        assert main([argv[0], *other, *argv[3:5], "--work-dir", str(folder), "--resume"]) == 2
        assert f"own {what}, /" in capsys.readouterr().err
    config = folder / "classify.py"
    text = config.read_text()
    config.write_text(f"{text}\nfinetuning.pop('of_class')\n")
    assert main([*argv[:5], "--work-dir", str(folder), "--resume"]) == 2
    assert "is of an older version; start it in another work_dir" in capsys.readouterr().err
    config.write_text(text)


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


def test_predict_takes_a_checkpoint_and_one_image(run, predicted, tmp_path):
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


def test_a_run_whose_config_reads_by_mmcv_is_scored_and_predicts_as_before(run, tmp_path):
    folder, _, argv = run
    config = folder / "classify.py"
    scores = (folder / "scores.json").read_text()
    text = config.read_text()
    older = text.replace("mmssprl.LoadImage", "LoadImageFromFile")
    assert older.count("LoadImageFromFile") >= 2
    write_image(tmp_path / "photographs" / "1.png", 50)
    predict = ["predict", str(folder), str(tmp_path / "photographs"), "--pictures", "0", "--out"]
    assert main([*predict, str(tmp_path / "by ours")]) == 0
    config.write_text(older)
    try:
        assert main([*argv[:5], "--work-dir", str(folder), "--resume"]) == 0
        assert main([*predict, str(tmp_path / "by mmcv")]) == 0
    finally:
        config.write_text(text)
    assert (folder / "scores.json").read_text() == scores
    found, wanted = (csv_rows(tmp_path / by / "scores.csv") for by in ("by mmcv", "by ours"))
    assert found == wanted


def test_the_report_has_scores_confusions_and_next_commands(run, capsys):
    folder, text, _ = run
    assert f"report: {folder / 'report.html'}" in text
    page = Page(folder / "report.html")
    assert page.sections() == [
        *("summary", "recipe", "curves", "classes", "confusion", "pictures", "next")
    ]
    scores = json.loads((folder / "scores.json").read_text())
    right = sum(row[i] for i, row in enumerate(scores["confusion"]))
    assert sum(map(sum, scores["confusion"])) == 6
    assert 100 * right / 6 == pytest.approx(scores["accuracy"])
    assert f"accuracy {scores['accuracy']:.1f} %" in page.text("summary")
    assert "32 px" in page.text("recipe")
    assert all(image["src"].startswith("data:image/") for image in page.of("img"))
    before = (folder / "report.html").read_text()
    assert main(["report", str(folder)]) == 0
    made = re.compile("Made .* by")
    assert made.sub("", (folder / "report.html").read_text()) == made.sub("", before)
