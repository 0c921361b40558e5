import re
from dataclasses import replace

import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.cli import build_parser, main, use
from mmssprl.weights import TARGETS, convert_weights


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A checkpoint of MoCo in the current folder."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    trunk = published.trunk_of(published.Narrow())
    return published.save(
        published.content_of(published.MOCO, trunk), tmp_path / "moco_1.6k.pth.tar"
    ).name


def test_a_checkpoint_is_exported_under_the_default_name(file, tmp_path, capsys):
    command = ["export", file, "--to", "safetensors"]
    assert [main(words) for words in (command, command, [*command, "--overwrite"])] == [0, 2, 0]
    printed = capsys.readouterr()
    out = tmp_path / "moco_1.6k.pth.safetensors"
    line = rf"{out.name}: features differ by .* of the largest, 1e-05 is allowed"
    assert len(re.findall(line, printed.out)) == 2
    assert "overwrite" in printed.err
    assert out.stat().st_mode & 0o044, "others can read it"


def test_the_help_of_export_lists_the_targets(capsys):
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"--to {{{','.join(TARGETS)}}}" in text
    assert [name for name, each in TARGETS.items() if f"{name}: {each.holds}" not in text] == []


def test_convert_reports_what_it_wrote(file, tmp_path, capsys):
    assert main(["convert", file]) == 0
    text = capsys.readouterr().out
    assert text.count("'state_dict.module.encoder_q.' (not 'state_dict.module.encoder_k.')") == 1
    assert "backbone: ResNet-18, 126 tensors\n" in text
    folder = tmp_path / "work_dirs" / "converted" / "moco_1_6k"
    assert sorted(path.name for path in folder.iterdir()) == ["moco_1_6k.json", "moco_1_6k.pth"]
    probe = text.splitlines()[-1].removeprefix("next: ").split()
    [weights] = build_parser().parse_args(probe[3:]).weights
    assert weights == f"{folder.relative_to(tmp_path)}/moco_1_6k.pth"


def test_replaces_nothing_without_overwrite(file):
    command = ["convert", file, "--prefix", "state_dict.module.encoder_k", "--out", "a/w.pth"]
    assert [main(words) for words in (command, command, [*command, "--overwrite"])] == [0, 2, 0]


def test_the_whole_model_is_trained_next(file, tmp_path):
    report = convert_weights(file, tmp_path / "w.pth")
    report = replace(report, kept={"neck.heads": 27}, config="CONFIG")
    lines = use.format_conversion(report).splitlines()
    assert "heads kept: neck.heads 27" in lines
    train, probe = lines[-2:]
    assert train.endswith(f" train CONFIG --cfg-options load_from={tmp_path}/w.pth")
    assert probe.endswith(f"probe {tmp_path}/w.pth DATA")
