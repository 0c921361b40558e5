import csv
import io
import json
import re
import shutil
from contextlib import redirect_stdout
from dataclasses import replace

import pytest
import torch
from helpers.datasets.labelled_folders import write_class_folders
from helpers.features.probe_folders import write_config
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.features import load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing import find_probe_data, fit_linear_probe, mean_average_precision, probe
from mmssprl.probing.linear import ProbeResult, extract_split, probe_all
from mmssprl.weights import load_network as load_weights
from mmssprl.weights import write_description

CPU = {"device": "cpu", "progress": False}


def write_weights(folder, config):
    folder.mkdir()
    cfg = Config.fromfile(config)
    torch.save(load_weights("random", cfg, seed=5).state_dict(), folder / "a.pth")
    write_description(folder / "a.pth", cfg)
    return folder / "a.pth"


@pytest.fixture
def weights(tmp_path, config):
    return write_weights(tmp_path / "run", config)


@pytest.fixture
def other(weights, tmp_path):
    """The same weights in another folder."""
    return shutil.copytree(weights.parent, tmp_path / "other") / weights.name


@pytest.fixture
def mixed_voc(voc):
    """Shuffled labels, so that mAP is below 1 and depends on the features."""
    files = sorted((voc / "Annotations").glob("*.xml"))
    texts = [file.read_text() for file in files]
    order = torch.randperm(36, generator=torch.Generator().manual_seed(0)).tolist()
    for file, i in zip(files, order, strict=True):
        file.write_text(texts[i])
    return voc


def test_the_parts_are_put_together(mixed_voc, config):
    result = probe("random", mixed_voc, config=config, image_px=40, seed=2, **CPU)
    data = find_probe_data(mixed_voc)
    model = load_backbone("random", config, image_px=40, seed=2)
    train_x, train = extract_split(model, data.train, FeatureOptions(**CPU))
    test_x, test = extract_split(model, data.test, FeatureOptions(**CPU))
    classifier = fit_linear_probe(train_x, train.labels, seed=2)
    expected, areas = mean_average_precision(classifier(test_x), test.labels)

    assert result.mAP == expected < 1
    assert result.strength == classifier.strength
    assert result.per_class == {"green": areas[0], "red": areas[1], "zebra": None}
    assert result.layout == "PASCAL VOC"
    loaded = probe(model, mixed_voc, seed=2, **CPU)
    assert (loaded.mAP, loaded.weights, loaded.config) == (expected, "", "")


def test_several_have_the_numbers_that_each_has_alone(weights, mixed_voc, config):
    both = probe_all([weights, "random"], mixed_voc, FeatureOptions(**CPU))
    alone = [probe(weights, mixed_voc, **CPU), probe("random", mixed_voc, config=config, **CPU)]
    for found, wanted in zip(both, alone, strict=True):
        assert replace(found, config="", interval=None) == replace(wanted, config="")
    assert (both[1].weights, both[1].config) == ("random", str(weights.with_suffix(".json")))
    assert both[0].mAP != both[1].mAP


def test_all_see_images_of_the_first_ones_size(weights, other, voc, capsys):
    about = other.with_suffix(".json")
    about.write_text(about.read_text().replace('"image_px": 32', '"image_px": 48'))
    found = probe_all([other, weights], voc, FeatureOptions(device="cpu"))
    assert [each.image_px for each in found] == [48, 48]
    assert capsys.readouterr().out.count("48 px, the size of the first") == 1
    found = probe_all([weights, other], voc, FeatureOptions(image_px=24, **CPU))
    assert [each.image_px for each in found] == [24, 24]


def test_features_that_are_not_finite_are_those_of_the_weights_that_are_named(weights, other, voc):
    state = torch.load(other)
    state["bn1.weight"].fill_(3e38)
    torch.save(state, other)
    with pytest.raises(ValueError, match=f"{other} gives NaN or infinity; it has diverged"):
        probe_all([weights, other], voc, FeatureOptions(progress=False))


def test_mistakes_are_found_before_anything_is_measured(weights, coco, capsys):
    options = FeatureOptions(device="cpu")
    weights.with_name("bad.pth").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad\.pth cannot be read"):
        probe_all([weights, weights.with_name("bad.pth")], coco, options)
    assert "features of" not in capsys.readouterr().out


def test_the_command_writes_the_numbers(weights, coco, tmp_path):
    out = tmp_path / "new" / "metrics.json"
    argv = ["probe", str(weights), str(coco), "--out", str(out)]
    assert [main(words) for words in (argv, argv, [*argv, "--overwrite"])] == [0, 2, 0]
    found = json.loads(out.read_text())
    assert (found["mAP"], found["per_class"]["green"], found["dense"]) == (1.0, 1.0, None)
    assert found["num_train"] == 24


def result_of(weights, score, interval):
    counts = dict.fromkeys(("num_train", "num_test", "num_classes", "num_features"), 20)
    tables = {"per_class": {}, "held_out_mAP": {}, "data": "", "layout": "", "strength": 1.0}
    scores = {"chance_mAP": 0.5, "accuracy": None, "chance_accuracy": None}
    about = {"image_px": 32, "seed": 0, "weights": weights, "interval": interval}
    return ProbeResult(mAP=score, **counts, **tables, **scores, **about)


@pytest.mark.parametrize(
    ("results", "best", "words"),
    [
        ([("a", 0.6, 0.05), ("b", 0.7, None)], "b", ""),
        ([("a", 0.68, 0.05), ("b", 0.7, None), ("random", 0.4, 0.1)], "b", "level with b: a"),
        ([("a", 0.7, None), ("b", 0.7, 0.0), ("random", 0.4, 0.1)], "a", "level with a: b"),
        ([("a", 0.7, None), ("b", 0.6, float("nan"))], "a", "level with a: b"),
        ([("a", 0.7, None), ("random", 0.6, 0.2)], None, "level with a: random"),
        ([("random", 0.7, None), ("b", 0.6, 0.2)], None, "level with random: b"),
        ([("a", 0.9, None), ("b", 0.6, None)], "a", "no interval for the lead of a over b"),
        ([("a", 0.9, None), ("random", 0.5, None)], None, "no interval .* a over random"),
    ],
)
def test_the_best_weights_are_proposed_unless_random_ones_may_be_as_good(
    results, best, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    (tmp_path / "data").mkdir()
    found = [result_of(*each) for each in results]
    monkeypatch.setattr("mmssprl.probing.linear.probe_all", lambda *_: found)
    assert main(["probe", *(each.weights for each in found), "data"]) == 0
    table, said = capsys.readouterr().out.rsplit("\n\n", 1)
    assert all(f"± {100 * half:.2f} |" in table for *_, half in results if half)
    assert ("± ? |" in table) == words.startswith("no interval")
    if best is None:
        assert re.fullmatch(f"{words}; nothing follows\n", said)
    else:
        *level, proposal = said.splitlines()
        assert re.fullmatch(words, "".join(level))
        assert proposal.endswith(f"finetune {best} data --task classify")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Names of three weights, two of them equal; what the command prints, and its table."""
    folder = tmp_path_factory.mktemp("compared")
    first = write_weights(folder / "run", write_config(folder))
    second = shutil.copytree(first.parent, folder / "other") / first.name
    names = [str(first), str(second), "random"]  # whole paths, for two have one name
    flowers = write_class_folders(folder / "flowers")
    with redirect_stdout(io.StringIO()) as said:
        assert main(["probe", *names, str(flowers), "--out", str(folder / "table.csv")]) == 0
    return names, said.getvalue(), folder / "table.csv"


def test_the_command_says_which_weights_are_as_good_as_the_best(compared):
    (first, second, _), printed, _ = compared
    assert f"{first} (1 of 3): features of" in printed
    assert printed.splitlines()[-1] == f"level with {first}: {second}, random; nothing follows"
    assert "accuracy %: one seed, nothing follows" in printed


def test_the_command_prints_a_row_for_each_of_several_weights(compared):
    names, printed, _ = compared
    rows = []
    for line in printed.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.split("|")])
    heads, _, *cells = rows
    assert [row[1] for row in cells] == names
    shown = dict(zip(heads, cells[0], strict=True))
    assert (shown["mAP %"], shown["chance %"], shown["behind the best"]) == ("100.00", "50.00", "-")
    assert (shown["accuracy %"], shown["most frequent %"]) == ("100.00", "50.00")


def test_the_table_in_a_file_has_a_row_for_each_of_several_weights(compared):
    names, _, file = compared
    table = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["weights"] for row in table] == names
    assert table[0]["accuracy"] == table[0]["mAP"] == table[0]["AP disc"] == "1.0"
