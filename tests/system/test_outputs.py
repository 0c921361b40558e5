from mmssprl.system.outputs import whole_file, write_whole


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as file:
        file.write("caf\udce9.jpg")  # a name that is no UTF-8
        assert not path.exists()
    assert path.read_bytes() == b"caf\xe9.jpg"
    write_whole(path, "2")
    assert path.read_text() == "2"
    assert list(tmp_path.iterdir()) == [path]
