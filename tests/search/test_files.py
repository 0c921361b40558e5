"""The files of embeddings, and the command that writes them."""

import shlex

import numpy as np
import pytest

import mmssprl
from mmssprl.cli import main
from mmssprl.features import load_backbone
from mmssprl.search import Embeddings, read_embeddings

ABOUT = {"weights": "a.pth", "weights_sha256": "0" * 64}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    names = ["a, b.jpg", "=1+1.jpg", "x/\udcff.jpg", "-ü.jpg"]
    boxes = rng.standard_normal((4, 4)).astype(np.float32)
    features = rng.standard_normal((4, 3)).astype(np.float32)
    return Embeddings(names, boxes, features, ABOUT, [("bad.jpg", "why")])


def test_what_is_written_is_read(rows, tmp_path):
    rows.save(tmp_path / "a.npz")
    found = read_embeddings(tmp_path / "a.npz")
    np.testing.assert_equal((found.boxes, found.features), (rows.boxes, rows.features))
    assert found.features.dtype == np.float32
    assert (found.names, found.about, found.unreadable) == (rows.names, ABOUT, rows.unreadable)


def test_an_existing_file_is_kept(rows, tmp_path):
    (tmp_path / "a.npz").touch()
    with pytest.raises(FileExistsError, match="overwrite"):
        rows.save(tmp_path / "a.npz")


def test_a_pickle_is_not_read(rows, tmp_path):
    np.savez(tmp_path / "c.npz", names=np.array([rows], dtype=object))
    with pytest.raises(ValueError, match=r"c\.npz must be .* cannot be read"):
        read_embeddings(tmp_path / "c.npz")


def test_rows_of_patches_are_left_out(rows, tmp_path):
    """Files of version 0.2 have them."""
    rows.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        np.savez(tmp_path / "b.npz", **file, scales=[0, 1, 0, 2])
    assert read_embeddings(tmp_path / "b.npz").names == rows.names[::2]


@pytest.fixture
def command(config, photos, tmp_path):
    """An `embed` to out/all.npz."""
    out = tmp_path / "out" / "all.npz"
    return ["embed", "random", str(photos), str(out), "--config", str(config)]


def test_the_command_writes_what_the_function_returns(command, config, photos, capsys):
    (photos / "a" / "no\nline.jpg").write_text("no image")
    assert main([*command, "--image-px", "24"]) == 0
    printed = capsys.readouterr().out
    assert "1 unreadable image skipped (first a/no\\nline.jpg: " in printed
    model = load_backbone("random", config, image_px=24)
    wanted = mmssprl.embed(model, photos, device="cpu", progress=False)
    found = read_embeddings(command[3])
    assert np.array_equal(found.features, wanted.features)
    assert {**found.about, "weights": ""} == wanted.about
    assert found.unreadable == wanted.unreadable
    # The command that is printed for the next step.
    _, _, words = printed.replace("QUERY", shlex.quote(str(photos / "b c"))).partition("-m mmssprl")
    assert main(shlex.split(words)) == 0


def test_the_command_replaces_a_file_only_if_asked(command, tmp_path, capsys):
    out = tmp_path / "out" / "all.npz"
    out.parent.mkdir()
    out.write_text("mine")
    assert main(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main([*command, "--overwrite"]) == 0
    assert read_embeddings(out).about["image_px"] == 32
    assert [path.name for path in out.parent.iterdir()] == ["all.npz"]
