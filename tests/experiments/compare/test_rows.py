"""The rows of a comparison: typed, or read from a YAML file."""

import json
from pathlib import Path

import pytest
from helpers.experiments.tiny_compare import comparison, pretend, rows
from helpers.features.probe_folders import write_coco

from mmssprl.errors import UserValueError
from mmssprl.experiments.compare.rows import choose_rows, read_row
from mmssprl.experiments.compare.setting import run_options
from mmssprl.pretraining.methods import BY_KEY

MAPS = "custom_hooks.2.folder"
FILE = """
- name: cells
  method: distill
  teacher: timm/resnet10t
  share: 0.5
  epochs: 3
- method: swav
- name: pooled
  method: distill
  values: {dense_weight: 0.0, optim_wrapper.optimizer.lr: 1e-3}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.yaml"
    path.write_text(FILE)
    return path


def row_of(*words):
    [row], _ = choose_rows(words, reference=words[0])
    return row


def test_a_plain_method_is_a_row_of_its_name():
    row = row_of("swav")
    assert (row.key, row.title, row.differs) == ("swav", BY_KEY["swav"].title, False)
    assert row.config_at("scenes") is BY_KEY["swav"].config_at("scenes")


def test_typed_values_are_of_the_model_or_of_the_config():
    row = row_of("ssprl:head.alpha=[0.5,0.1],optim_wrapper.optimizer.lr=1e-3,cross_weight=2")
    assert row.values == {
        "head.alpha": [0.5, 0.1],
        "optim_wrapper.optimizer.lr": 1e-3,
        "cross_weight": 2,
    }
    row = row_of("distill:dense_weight=0,epochs=7")
    assert (row.key, row.epochs) == ("distill-dense_weight=0,epochs=7", 7)
    cfg = row.config_at("scenes")
    assert cfg.model.dense_weight == 0
    assert BY_KEY["distill"].config_at("scenes").model.dense_weight == 0.5


def test_a_file_has_rows_with_names(file):
    found, reference = choose_rows([str(file)], reference="pooled")
    assert [row.key for row in found] == ["cells", "swav", "pooled"]
    assert reference is found[2]
    cells, _, pooled = found
    assert (cells.teacher, cells.share, cells.epochs) == ("timm/resnet10t", 0.5, 3)
    assert pooled.values == {"dense_weight": 0.0, "optim_wrapper.optimizer.lr": 0.001}
    assert cells.config_at("scenes").custom_hooks[-1].teacher == "timm/resnet10t"


def test_a_row_of_a_file_is_taken_by_its_name(file):
    assert row_of(f"{file}:pooled").key == "pooled"
    with pytest.raises(UserValueError, match="must be cells, swav, pooled, but .*mean pooled"):
        choose_rows([f"{file}:pooles"], "ssprl")


def test_each_row_comes_once_after_the_shipped_methods(file):
    found, reference = choose_rows(["ssprl", str(file), "random", f"{file}:cells"], "ssprl")
    assert [row.key for row in found] == ["random", "ssprl", "cells", "swav", "pooled"]
    assert reference.key == "ssprl"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("swaw:epochs=3", "got 'swaw'; did you mean swav"),
        ("swav:epochs", "row swav:epochs: it takes KEY=VALUE, but got 'epochs'"),
        ("swav:epochs=-1", "epochs must be an integer from 0, but got -1"),
        ("swav:share=2,epochs=3", "share must be above 0 and at most 1, but got 2"),
        ("swav:share=0.5", "a row with a share needs its epochs"),
    ],
)
def test_a_wrong_word_is_refused(word, message):
    with pytest.raises(UserValueError, match=message):
        choose_rows([word], "ssprl")


@pytest.mark.parametrize("words", [["all"], ["swav"]])
def test_a_row_of_other_epochs_does_not_replace_its_method(words, tmp_path):
    path = tmp_path / "rows.yml"
    path.write_text("- {method: swav, epochs: 9}")
    assert [row.epochs for row in choose_rows([str(path)], "ssprl")[0]] == [None, 9]
    with pytest.raises(UserValueError, match="would be a second swav; give that row another"):
        choose_rows([*words, str(path)], "ssprl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {method: swav, value: {}}", "row 1 of .* but not 'value'; did you mean values?"),
        ("- {name: a b, method: swav}", "name must be letters, digits .* got 'a b'"),
        ("- {name: a}", "row 1 of .* must have a method"),
        ("- {method: swav, values: 3}", "values must be a mapping, but got 3"),
        ("method: swav", "must be a list of rows"),
        ("- {", "is no YAML"),
        ("- {name: a, method: swav}\n- {name: a, method: byol}", "would be a second a"),
        ("- {name: swav, method: byol}", "would be a second swav"),
        ("- {method: ssprl, values: {head.epsilon: 0.1}}", "would be a second ssprl"),
    ],
)
def test_a_wrong_file_is_refused(text, message, tmp_path):
    path = tmp_path / "rows.yml"
    path.write_text(text)
    with pytest.raises(UserValueError, match=message):
        choose_rows([str(path), "swav"], "ssprl")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("distill:dense_wieght=0", "dense_wieght must .* of PyramidDistillation .*dense_weight"),
        ("ssprl:optim_wraper.type=X", "there is no 'optim_wraper'; did you mean optim_wrapper"),
        ("ssprl:head.num_prototype=3", "of SinkhornHead .* did you mean num_prototypes"),
        ("swav:teacher=timm/resnet10t", "teacher is for methods that learn from one"),
        ("ssprl:train_cfg.max_epochs=3", "values must not have train_cfg.max_epochs"),
        ("ssprl:head.epsilon=-1", "epsilon"),
        ("swav:load_from=a.pth", "load_from loads weights, .* set weights to the file"),
        ("swav:epochs=0,load_from=a.pth", "load_from loads weights, .* set weights to the file"),
        ("swav:backbone.init_cfg.type=Pretrained", "model.backbone.init_cfg loads weights"),
    ],
)
def test_a_wrong_value_is_refused_before_any_training(word, message, tmp_path):
    data = write_coco(tmp_path)
    with pytest.raises(ValueError, match=message):
        comparison(tmp_path / "work", data, methods=[word]).plan()


def test_a_typed_row_is_run_under_its_name(tmp_path, monkeypatch):
    work = tmp_path / "work"
    asked = {"methods": ["swav:epochs=2,share=0.5,head.epsilon=0.1"], "seeds": 1, "epochs": 6}
    found = comparison(work, write_coco(tmp_path), equal=("epochs",), **asked)
    found.plan()
    pretend(monkeypatch, lambda run: 0.2)
    found.run()
    name = "swav-epochs=2,share=0.5,head.epsilon=0.1"
    [own, reference] = found.final_runs()["epochs"][::-1]
    assert (own.folder.name, reference.folder.name) == (
        f"{name}-2ep-lr1-seed0",
        "ssprl-6ep-lr1-seed0",
    )
    assert [row["method"] for row in rows(work / "results.csv")] == ["ssprl", name]
    options = own.inputs["options"]
    listed = Path(options["train_dataloader.dataset.ann_file"]).read_text().splitlines()
    assert len(listed) == 12  # of 24
    assert own.settings["images"] != reference.settings["images"]
    # What its process reads.
    settings = json.loads((own.folder / "settings.json").read_text())
    assert read_row(settings).model.head.epsilon == 0.1
    assert "model.head.epsilon" not in options


def test_rows_with_one_teacher_share_its_maps(tmp_path):
    words = [f"distill:teacher=timm/resnet10t,dense_weight={weight}" for weight in (0, 1)]
    words += ["distill", "distill:teacher=timm/resnet18"]
    words += ["distill:teacher=timm/resnet10t,custom_hooks.2.teacher_px=448"]
    found = comparison(tmp_path / "work", write_coco(tmp_path), methods=words, dry_run=True)
    found.plan(writes=False)
    folders = {}
    for key, row in found.methods.items():
        images = found.images_of(row, "test")
        folders[key] = run_options(found.setting, row, images=images, epochs=1).get(MAPS)
    *_, first, second, other, larger = folders.values()
    assert first == second
    assert len({first, other, larger}) == 3
    assert folders["distill"].endswith("lists/images_of_test_runs_distill")
