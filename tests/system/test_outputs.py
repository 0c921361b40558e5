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
        file.write("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_was_there_stays_if_the_writer_stops(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write():
        with whole_file(path, "wb") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_replaces_text(tmp_path):
    write_whole(tmp_path / "a.txt", "1")
    write_whole(tmp_path / "a.txt", "2")
    assert (tmp_path / "a.txt").read_text() == "2"


def test_outputs_are_refused_before_the_work(tmp_path):
    (tmp_path / "there.txt").touch()
    with pytest.raises(FileExistsError, match="must not exist yet"):
        prepare_output(tmp_path / "there.txt")
    with pytest.raises(FileExistsError, match="is a folder"):
        prepare_output(tmp_path, force=True)
    prepare_output(tmp_path / "there.txt", force=True)
    prepare_output(tmp_path / "new" / "a.txt")
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_figures_take_the_format_of_their_suffix(name, start, tmp_path):
    write_figure(tmp_path / name, Figure())
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_picture_of_no_format_is_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match=r"picture must end in .png, .pdf or .* but got .*a.foo"):
        prepare_picture(tmp_path / "a.foo")
    for name in ("a.png", "a.PDF", "a"):
        prepare_picture(tmp_path / name)
    with pytest.raises(FileExistsError, match="is a folder"):
        prepare_picture(tmp_path)


def test_names_that_are_no_utf_8_are_written_as_they_are(tmp_path):
    write_whole(tmp_path / "names.txt", "caf\udce9.jpg")
    assert (tmp_path / "names.txt").read_bytes() == b"caf\xe9.jpg"


def test_two_outputs_are_two_files(tmp_path, monkeypatch):
    check_different({"--out": None, "--csv": None})
    check_different({"--out": "a.json", "--csv": "a.csv"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"--out and --csv must be two files, but both are /.*/a"):
        check_different({"--out": "a", "--csv": str(tmp_path / "a")})
