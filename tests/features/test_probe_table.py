"""Several weights in one table."""

import csv

import pytest
import torch
from mmengine.config import Config
from probe_folders import write_class_folders

from mmssprl.cli import main
from mmssprl.features import linear_probe, linear_probes
from mmssprl.weights import load_backbone


@pytest.fixture
def weights(tmp_path, config):
    folder = tmp_path / "run"
    folder.mkdir()
    config.rename(folder / config.name)
    state = load_backbone("random", Config.fromfile(folder / config.name), seed=5).state_dict()
    torch.save(state, folder / "a.pth")
    return folder / "a.pth"


def test_each_has_the_numbers_that_it_has_alone(weights, voc):
    # Labels of other images: no easy mAP of 1.
    files = sorted((voc / "Annotations").glob("*.xml"))
    texts = [file.read_text() for file in files]
    for file, text in zip(files, texts[7:] + texts[:7], strict=True):
        file.write_text(text)
    both = linear_probes([weights, "random"], voc, progress=False)
    alone = linear_probe(weights, voc, progress=False)
    config = weights.with_name("tiny.py")
    random = linear_probe("random", voc, config=config, progress=False)
    for found, wanted in zip(both, [alone, random], strict=True):
        del found["seconds"], wanted["seconds"]
        assert found == wanted
    assert (both[1]["weights"], both[1]["config"]) == ("random", str(config))
    assert both[0]["mAP"] != both[1]["mAP"]


def test_all_see_images_of_the_first_ones_size(weights, voc, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.pth").write_bytes(weights.read_bytes())
    text = weights.with_name("tiny.py").read_text()
    (other / "tiny.py").write_text(text.replace("image_px=32", "image_px=48"))
    assert (other / "tiny.py").read_text() != text
    lines = []
    found = linear_probes([other / "a.pth", weights], voc, progress=False, log=lines.append)
    assert [each["image_px"] for each in found] == [48, 48]
    assert sum("all at 48 px" in line for line in lines) == 1
    found = linear_probes([weights, other / "a.pth"], voc, progress=False, image_px=24)
    assert [each["image_px"] for each in found] == [24, 24]


def test_all_weights_are_loaded_before_the_first_is_measured(weights, coco):
    lines = []
    with pytest.raises(FileNotFoundError, match=r"WEIGHTS must be an existing file, .* gone.pth"):
        linear_probes([weights, "gone.pth"], coco, log=lines.append)
    weights.with_name("bad.pth").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad.pth cannot be read"):
        linear_probes([weights, weights.with_name("bad.pth")], coco, log=lines.append)
    assert not any(line.startswith("features of") for line in lines)


def test_supervised_weights_take_depth_and_size_of_the_first_file(weights, coco, monkeypatch):
    asked = []

    def supervised_state(depth):
        asked.append(depth)
        cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": depth}}})
        return load_backbone("random", cfg).state_dict()

    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", supervised_state)
    found = linear_probes([weights, "supervised"], coco, progress=False)
    assert asked == [18]
    assert [each["num_features"] for each in found] == [16, 512]
    assert [each["image_px"] for each in found] == [32, 32]


def test_the_table_its_csv_and_the_time_that_is_left(weights, tmp_path, capsys):
    flowers, out = write_class_folders(tmp_path / "flowers"), tmp_path / "table.csv"
    command = ["probe", str(weights), "random", str(flowers), "--csv", str(out), "--per-class"]
    assert main([*command, "--num-workers", "0"]) == 0
    printed = capsys.readouterr().out
    assert ": a folder per class, 20 images" in printed
    assert "20% of each class of 20 images held out, seed 0" in printed
    assert f"{weights} (1 of 2)" in printed
    next_one = f"next: python -m mmssprl finetune {weights} {flowers} --task classify\n"
    assert printed.endswith(next_one)
    assert "random (2 of 2)" in printed
    rows = [line.split("|") for line in printed.splitlines() if line.startswith("|")]
    heads = [cell.strip() for cell in rows[0][1:-1]]
    assert heads[-4:] == ["mAP %", "chance %", "accuracy %", "most frequent %"]
    assert [row[1].strip() for row in rows[2:4]] == ["a.pth", "random"]
    assert [cell.strip() for cell in rows[2][-5:-1]] == ["100.00", "50.00", "100.00", "50.00"]
    assert [cell.strip() for cell in rows[4][1:-1]] == ["class", "a.pth", "random"]
    table = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["weights"] for row in table] == [str(weights), "random"]
    assert table[0]["accuracy"] == table[0]["mAP"] == "1.0"
    assert main(command) == 2
    assert "the output must not exist yet" in capsys.readouterr().err
    assert main([*command, "--out", str(out), "--force"]) == 2
    assert "--out and --csv must be two files" in capsys.readouterr().err


def test_files_of_one_name_are_told_apart(weights, coco, capsys):
    other = weights.parent.with_name("other")
    other.mkdir()
    for name in ("a.pth", "tiny.py"):
        (other / name).write_bytes(weights.with_name(name).read_bytes())
    command = ["probe", str(weights), str(other / "a.pth"), str(coco), "--num-workers", "0"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"| {weights} " in printed
    assert f"| {other / 'a.pth'} " in printed


def test_the_next_step_takes_the_best_weights(monkeypatch, capsys):
    result = {"layout": "VOC", "num_train": 2, "num_test": 1, "num_classes": 1, "image_px": 32}
    result |= {"data": "voc", "chance_mAP": 0.1, "accuracy": None}
    found = [{**result, "weights": name, "mAP": mAP} for name, mAP in (("a", 0.2), ("b", 0.3))]
    monkeypatch.setattr("mmssprl.features.linear_probes", lambda *_, **__: [*found, found[0]])
    assert main(["probe", "a", "b", "a", "my data"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "next: python -m mmssprl finetune b 'my data' --task classify"
