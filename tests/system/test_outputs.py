import pytest
from matplotlib.figure import Figure

from mmssprl.system.outputs import (
    check_different,
    prepare_output,
    prepare_picture,
    whole_file,
    write_figure,
    write_whole,
)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as file:
        file.write("caf\udce9.jpg")  # a name that is no UTF-8
        assert not path.exists()
    assert path.read_bytes() == b"caf\xe9.jpg"
    write_whole(path, "2")
    assert path.read_text() == "2"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_was_there_stays_if_the_writer_stops(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), whole_file(path, "wb") as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_outputs_are_refused_before_the_work(tmp_path):
    (tmp_path / "there.txt").touch()
    with pytest.raises(FileExistsError, match=r"there\.txt.* --force"):
        prepare_output(tmp_path / "there.txt")
    with pytest.raises(FileExistsError, match="folder"):
        prepare_output(tmp_path, force=True)
    prepare_output(tmp_path / "there.txt", force=True)
    prepare_output(tmp_path / "new" / "a.txt")
    assert (tmp_path / "new").is_dir()


def test_pictures_take_the_format_of_their_suffix(tmp_path):
    for name, start in (("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a", b"\x89PNG")):
        prepare_picture(tmp_path / name)
        write_figure(tmp_path / name, Figure())
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(ValueError, match=r"\.png.*a\.foo"):
        prepare_picture(tmp_path / "a.foo")


def test_two_outputs_are_two_files(tmp_path, monkeypatch):
    check_different({"--out": None, "--csv": None})
    check_different({"--out": "a.json", "--csv": "a.csv"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"--out /\S*/a, --csv /\S*/a"):
        check_different({"--out": "a", "--csv": str(tmp_path / "a")})
