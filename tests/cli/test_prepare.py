import pytest
from prepare_folders import OWN, cut_off, write_coco, write_png, write_sbd, write_voc12

from mmssprl.cli import main
from mmssprl.preparation import DATA_SETS, coco
from mmssprl.preparation.finding import Finding, format_remedies, format_table


def test_the_table_is_aligned():
    assert format_table(
        [Finding("a/", "OK", "2 files"), Finding("long name", "MISSING", "", "curl x")]
    ) == (
        "| piece     | status  | found   |\n"
        "| --------- | ------- | ------- |\n"
        "| a/        | OK      | 2 files |\n"
        "| long name | MISSING |         |"
    )


def test_remedies_are_printed_once_and_only_of_what_is_not_ok():
    findings = [
        Finding("a", "OK", "", "do not"),
        Finding("b", "MISSING", "", "curl b\n"),
        Finding("c", "WRONG", "", "curl c"),
        Finding("d", "MISSING", "", "curl b"),
    ]
    assert format_remedies(findings) == "curl b\n\ncurl c"


def test_a_complete_folder_exits_with_0(tmp_path, capsys, monkeypatch):
    write_coco(tmp_path)
    assert main(["prepare", "coco", str(tmp_path), "--any-size"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"coco in {tmp_path}\n\n| piece  ")
    assert "\n| val2014/  " in text
    assert "MISSING" not in text
    assert text.endswith("\neverything is there\n")
    monkeypatch.setattr(coco, "SPLITS", {"train2014": 3, "val2014": 2})
    monkeypatch.setattr(coco, "NUM_CATEGORIES", 2)
    assert main(["prepare", "coco", str(tmp_path)]) == 0


def test_another_size_and_damage_exit_with_1(tmp_path, capsys):
    write_coco(tmp_path)
    assert main(["prepare", "coco", str(tmp_path)]) == 1
    assert "not the official set: 3 of 82,783 images" in capsys.readouterr().out
    cut_off(tmp_path / "train2014" / "001.jpg")
    assert main(["prepare", "coco", str(tmp_path), "--any-size"]) == 1


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (
            "coco",
            "curl -fL -C - -o {root}/train2014.zip "
            "http://images.cocodataset.org/zips/train2014.zip  # 13 GB\n"
            "unzip -q -n {root}/train2014.zip -d {root}\n",
        ),
        (
            "voc07",
            "printf '%s  %s\\n' b6e924de25625d8de591ea690078ad9f "
            "{root}/VOCdevkit/VOCtest_06-Nov-2007.tar | md5sum -c\n"
            "tar -xf {root}/VOCdevkit/VOCtest_06-Nov-2007.tar -C {root}/VOCdevkit/VOC2007 "
            "--skip-old-files --strip-components=2 VOCdevkit/VOC2007\n",
        ),
        ("voc12aug", "\npython -m mmssprl prepare voc12aug {root}\n"),
        ("imagenet", "# put ILSVRC2012_img_train.tar (138 GB) here: {root}/ILSVRC2012_img_"),
    ],
)
def test_of_nothing_all_is_missing_and_the_commands_are_printed(tmp_path, capsys, name, command):
    root = tmp_path / "data"
    assert main(["prepare", name, str(root)]) == 1
    text = capsys.readouterr().out
    assert "MISSING" in text
    assert f"\nexpected:\n{DATA_SETS[name].TREE}\n" in text
    assert command.format(root=root) in text
    assert not root.exists()


def test_voc12aug_converts_unless_only_a_check_is_wanted(tmp_path, capsys):
    write_sbd(tmp_path / "benchmark_RELEASE" / "dataset")
    voc = write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    command = ["prepare", "voc12aug", str(tmp_path), "--any-size"]
    assert main([*command, "--check-only"]) == 1
    assert f"\npython -m mmssprl {' '.join(command)}\n" in capsys.readouterr().out
    assert not (voc / "SegmentationClassAug").exists()
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("converted: 4 label images written\n")
    assert text.endswith("everything is there\n")
    assert main(command) == 0
    assert "converted" not in capsys.readouterr().out


def test_voc12aug_of_another_size_is_not_converted(tmp_path):
    write_sbd(tmp_path / "benchmark_RELEASE" / "dataset")
    voc = write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    assert main(["prepare", "voc12aug", str(tmp_path)]) == 1
    assert not (voc / "SegmentationClassAug").exists()


def test_labels_that_cannot_be_converted_are_an_error(tmp_path, capsys):
    write_sbd(tmp_path / "benchmark_RELEASE" / "dataset")
    write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    (tmp_path / "benchmark_RELEASE" / "dataset" / "cls" / "d.mat").write_text("damaged")
    assert main(["prepare", "voc12aug", str(tmp_path), "--any-size"]) == 2
    error = capsys.readouterr().err
    assert "mmssprl prepare: error: " in error
    assert "cls/d.mat: must be a MATLAB file" in error


def test_a_file_is_no_folder(tmp_path, capsys):
    write_png(tmp_path / "x.png", OWN["a"])
    assert main(["prepare", "coco", str(tmp_path / "x.png")]) == 2
    assert capsys.readouterr().err == (
        f"mmssprl prepare: error: DIR must be a folder, but {tmp_path}/x.png is a file; "
        "pass its folder.\n"
    )
