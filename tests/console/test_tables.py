from mmssprl.console.tables import markdown_table, reasons_table
from mmssprl.console.wording import CONSOLE_WIDTH


def test_markdown_is_aligned_and_escaped():
    text = markdown_table(["what", "a", "mAP %"], [["one|two", "1", "9.5"], ["x", "1000", ""]])
    assert text.splitlines() == [
        r"| what     |    a | mAP % |",
        r"| -------- | ---: | ----: |",
        r"| one\|two |    1 |   9.5 |",
        r"| x        | 1000 |       |",
    ]
    text = markdown_table(["a", "b"], [["1", "long"]], num_left=2)
    assert text.splitlines() == ["| a   | b    |", "| --- | ---- |", "| 1   | long |"]
    text = markdown_table(["a"], [["x\ny\x1b[2J\u202egpj.exe\x85"]])
    assert r"| x\ny\x1b[2J\u202egpj.exe\x85 |" in text, "nothing acts in it"
    assert len(text.splitlines()) == 3


def test_a_choice_longer_than_a_line_stays_in_its_column():
    values = f"levels=[{'1,' * 150}]"
    lines = reasons_table({"seed": ("0", "fixed"), "options": (values, "as asked")}).splitlines()
    assert max(map(len, lines)) <= CONSOLE_WIDTH
    assert {line[:13].strip() for line in lines} == {"seed", "options", ""}
    assert "".join(line[13:] for line in lines[1:]) == f"{values}  as asked"
