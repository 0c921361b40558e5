import pytest
from helpers.preparation.prepare_folders import OWN, write_coco, write_png, write_voc12

from mmssprl.cli import main
from mmssprl.preparation import DATA_SETS, check_data
from mmssprl.preparation.finding import Finding, format_remedies


def test_remedies_are_printed_once_and_only_of_what_is_not_ok():
    findings = [
        Finding("a", "OK", "", "do not"),
        Finding("b", "MISSING", "", "curl b"),
        Finding("c", "WRONG", "", "curl c"),
        Finding("d", "MISSING", "", "curl b"),
    ]
    assert format_remedies(findings) == "curl b\n\ncurl c"


def test_a_complete_folder_exits_with_0(tmp_path, capsys):
    write_coco(tmp_path)
    assert main(["prepare", "coco", str(tmp_path), "--any-size"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"coco in {tmp_path}\n\n| piece  ")
    assert "\n| val2014/  " in text
    assert "MISSING" not in text
    assert text.endswith("\neverything is there\n")
    assert main(["prepare", "coco", str(tmp_path)]) == 1


@pytest.mark.parametrize("name", DATA_SETS)
def test_of_nothing_all_is_missing_and_the_commands_are_printed(tmp_path, capsys, name):
    root = tmp_path / "data"
    assert main(["prepare", name, str(root)]) == 1
    text = capsys.readouterr().out
    assert "MISSING" in text
    assert f"\nexpected:\n{DATA_SETS[name].TREE}\n" in text
    commands = format_remedies(check_data(name, root))
    assert f" {root}" in commands
    assert commands in text
    if name == "coco":
        address = "http://images.cocodataset.org/zips/train2014.zip"
        assert f"curl -fL -C - -o {root}/train2014.zip {address}  # 13 GB\n" in text
    assert not root.exists()


def test_nothing_is_converted_and_former_options_are_taken(tmp_path, capsys):
    voc = write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    assert main(["prepare", "voc12aug", str(tmp_path), "--any-size", "--check-only"]) == 1
    assert "MISSING" in capsys.readouterr().out
    assert not (voc / "SegmentationClassAug").exists()


def test_a_file_is_no_folder(tmp_path, capsys):
    write_png(tmp_path / "x.png", OWN["a"])
    assert main(["prepare", "coco", str(tmp_path / "x.png")]) == 2
    assert f"{tmp_path}/x.png" in capsys.readouterr().err
