import csv
import io
import re

import pytest

from mmssprl.console.tables import csv_cell, csv_table, markdown_table, reasons_table
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


def test_csv_quotes_what_needs_it():
    assert csv_table(["a", "b"], [[1, "x,y"], [2.5, ""]]) == 'a,b\n1,"x,y"\n2.5,\n'


TEXTS = ["=1+1", "+cmd|'/C calc'!A0", "-img.jpg", "@SUM(A1)", "\tx", "\rx", "'=x", "''-x", "-1+1"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_a_spreadsheet_would_run_is_kept_from_it_and_can_be_had_again(text):
    ((cell,),) = csv.reader(io.StringIO(csv_table([text], []), newline=""))
    assert cell == f"'{text}"
    assert re.sub(r"^'(?='*[=+\-@\t\r].)", "", cell) == text


@pytest.mark.parametrize(
    "value", ["-0.5", "+1e-3", "-inf", -2.5, -3, "-", "", "a=b", "'a'", "'tis", "a.jpg", None]
)
def test_numbers_and_other_text_stay(value):
    assert csv_cell(value) == value


def test_a_choice_longer_than_a_line_stays_in_its_column():
    values = f"levels=[{'1,' * 150}]"
    lines = reasons_table({"seed": ("0", "fixed"), "options": (values, "as asked")}).splitlines()
    assert max(map(len, lines)) <= CONSOLE_WIDTH
    assert {line[:13].strip() for line in lines} == {"seed", "options", ""}
    assert "".join(line[13:] for line in lines[1:]) == f"{values}  as asked"
