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
    boxes, features = (rng.standard_normal((4, num)).astype(np.float32) for num in (4, 3))
    return Embeddings(names, boxes, features, ABOUT, [("bad.jpg", "why")])


def test_what_is_written_is_read(rows, tmp_path):
    rows.save(tmp_path / "a.npz")
    found = read_embeddings(tmp_path / "a.npz")
    np.testing.assert_equal((found.boxes, found.features), (rows.boxes, rows.features))
    assert found.features.dtype == np.float32
    assert (found.names, found.about, found.unreadable) == (rows.names, ABOUT, rows.unreadable)
    with pytest.raises(FileExistsError, match="overwrite"):
        rows.save(tmp_path / "a.npz")
    np.savez(tmp_path / "c.npz", names=np.array([rows], dtype=object))  # a pickle
    with pytest.raises(ValueError, match=r"c\.npz must be .* cannot be read"):
        read_embeddings(tmp_path / "c.npz")
    # Files of version 0.2 have rows of patches.
    with np.load(tmp_path / "a.npz") as file:
        np.savez(tmp_path / "b.npz", **file, scales=[0, 1, 0, 2])
    assert read_embeddings(tmp_path / "b.npz").names == rows.names[::2]


def test_the_command_writes_what_the_function_returns(config, photos, tmp_path, capsys):
    (photos / "a" / "no\nline.jpg").write_text("no image")
    out = tmp_path / "out" / "all.npz"
    command = ["embed", "random", str(photos), str(out), "--config", str(config)]
    assert main([*command, "--image-px", "24"]) == 0
    printed = capsys.readouterr().out
    assert "1 unreadable image skipped (first a/no\\nline.jpg: " in printed
    model = load_backbone("random", config, image_px=24)
    wanted = mmssprl.embed(model, photos, device="cpu", progress=False)
    found = read_embeddings(out)
    assert np.array_equal(found.features, wanted.features)
    assert {**found.about, "weights": ""} == wanted.about
    assert found.unreadable == wanted.unreadable
    _, _, words = printed.replace("QUERY", shlex.quote(str(photos / "b c"))).partition("-m mmssprl")
    assert main(shlex.split(words)) == 0
    assert main(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert read_embeddings(out).about["image_px"] == 32
    assert [path.name for path in out.parent.iterdir()] == ["all.npz"]
