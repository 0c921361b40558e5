from dataclasses import replace

import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.cli import build_parser, main
from mmssprl.cli.use import format_conversion
from mmssprl.weights import convert_weights, key_tables


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A checkpoint of MoCo in the current folder."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    trunk = published.trunk_of(published.Narrow())
    return published.save(published.moco(trunk), tmp_path / "moco_1.6k.pth.tar").name


def test_prints_what_it_found_did_and_left_out(file, tmp_path, capsys):
    assert main(["convert", file, "--from", "auto"]) == 0
    text = capsys.readouterr().out
    assert "backbone    ResNet-18: 126 tensors, all matched\n" in text
    assert "left out    encoder_q.fc 4, encoder_k 130, queue 1, queue_ptr 1\n" in text
    folder = tmp_path / "work_dirs" / "converted" / "moco_1_6k"
    assert sorted(path.name for path in folder.iterdir()) == ["moco_1_6k.pth", "moco_1_6k.py"]
    probe = text.splitlines()[-1].split()
    [weights] = build_parser().parse_args(probe[3:]).weights
    assert weights == f"{folder.relative_to(tmp_path)}/moco_1_6k.pth"


def test_replaces_nothing_without_force(file):
    command = ["convert", file, "--from", "moco", "--out", "a/w.pth"]
    assert [main(words) for words in (command, command, [*command, "--overwrite"])] == [0, 2, 0]


def test_the_whole_model_is_trained_next(file, tmp_path):
    report = convert_weights(file, "moco", tmp_path / "w.pth")
    whole = {"key_table": key_tables.SSPRL, "kept": {"neck.heads": 27}}
    report = replace(report, backbone={"type": "ResNet", "depth": 50}, **whole)
    lines = format_conversion(report).splitlines()
    assert "backbone    ResNet-50: 126 tensors, all matched" in lines
    assert "heads kept  neck.heads 27" in lines
    assert [line for line in lines if line.startswith("note        the released queues lie out")]
    train, probe = lines[-2:]
    assert train.endswith(f"train.py {tmp_path}/w.py --cfg-options load_from={tmp_path}/w.pth")
    assert probe.endswith(f"probe {tmp_path}/w.pth data/VOCdevkit --config {tmp_path}/w.py")
