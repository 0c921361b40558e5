from mmssprl.console.tables import markdown_table, reasons_table
from mmssprl.console.wording import CONSOLE_WIDTH


def test_columns_are_aligned():
    text = markdown_table(["what", "a", "mAP %"], [["one|two", "1", "9.5"], ["x", "1000", ""]])
    assert text.splitlines() == [
        r"| what     |    a | mAP % |",
        r"| -------- | ---: | ----: |",
        r"| one\|two |    1 |   9.5 |",
        r"| x        | 1000 |       |",
    ]
    text = markdown_table(["a", "b"], [["1", "long"]], num_left=2)
    assert text.splitlines() == ["| a   | b    |", "| --- | ---- |", "| 1   | long |"]


def test_a_cell_stays_on_its_line():
    text = markdown_table(["a"], [["x\ny\x1b[2J\u202egpj.exe\x85"]])
    assert r"| x\ny\x1b[2J\u202egpj.exe\x85 |" in text, "nothing acts in it"
    assert len(text.splitlines()) == 3


def test_a_long_path_loses_its_middle():
    path = f"/home/someone/{'projects/' * 8}runs/distilled/ssprl_resnet18_backbone.pth"
    rows = {"teacher": (path, "sees each image once"), "weights": (f"timm/vit:{path}", "as asked")}
    lines = reasons_table({**rows, "seed": ("0", "as asked")}).splitlines()
    assert [line[2:13].strip() for line in lines] == ["teacher", "weights", "seed"]
    end = "jects/runs/distilled/ssprl_resnet18_backbone.pth"[-39:]
    assert lines[0][13:] == f"/home/someone/proj...{end}  sees each image once"
    assert lines[1][13:].startswith("timm/vit:/home/som...")
    assert {line.index("  ", 13) for line in lines[:2]} == {73}


def test_a_choice_longer_than_a_line_stays_in_its_column():
    values = f"data_root=/home/someone,levels=[{'1,' * 150}]"
    lines = reasons_table({"seed": ("0", "fixed"), "options": (values, "as asked")}).splitlines()
    assert max(map(len, lines)) <= CONSOLE_WIDTH
    assert {line[:13].strip() for line in lines} == {"seed", "options", ""}
    assert "".join(line[13:] for line in lines[1:]) == f"{values}  as asked"
