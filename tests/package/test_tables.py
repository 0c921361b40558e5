from mmssprl.tables import aligned_pairs, csv_table, markdown_table


def test_markdown_is_aligned_and_escaped():
    text = markdown_table(["what", "a", "mAP %"], [["one|two", "1", "9.5"], ["x", "1000", ""]])
    assert text.splitlines() == [
        r"| what     |    a | mAP % |",
        r"| -------- | ---: | ----: |",
        r"| one\|two |    1 |   9.5 |",
        r"| x        | 1000 |       |",
    ]


def test_text_columns_begin_at_the_left():
    text = markdown_table(["a", "b"], [["1", "long"]], num_left=2)
    assert text.splitlines() == ["| a   | b    |", "| --- | ---- |", "| 1   | long |"]


def test_csv_quotes_what_needs_it():
    assert csv_table(["a", "b"], [[1, "x,y"], [2.5, ""]]) == 'a,b\n1,"x,y"\n2.5,\n'


def test_pairs_are_aligned():
    assert aligned_pairs({"a": "1", "long": "2 3"}) == "a     1\nlong  2 3"
