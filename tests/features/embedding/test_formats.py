import csv
import importlib.util

import numpy as np
import pytest

from mmssprl.features import Embeddings, read_embeddings

ABOUT = {"weights": "a.pth", "weights_sha256": "0" * 64, "levels": [[2, 8]]}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((4, 3)).astype(np.float32)
    features[0] = [1e-38, 0.1, 16777217]
    return Embeddings(
        names=["a, b.jpg", "=1+1.jpg", "x/\udcff.jpg", "-ü.jpg"],
        scales=np.array([0, 1, 0, 0]),
        cells=np.array([0, 3, 0, 0]),
        boxes=rng.random((4, 4)).astype(np.float32),
        features=features,
        about=ABOUT,
    )


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_what_is_written_is_read(rows, suffix, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"a.{suffix}"
    rows.save(path)
    found = read_embeddings(path)
    wanted = list(rows.names)
    if suffix == "parquet":
        wanted[2] = r"x/\xff.jpg"  # its text must be UTF-8
    assert found.names == wanted
    for name in ("scales", "cells", "boxes", "features"):
        assert np.array_equal(getattr(found, name), getattr(rows, name))
    assert found.features.dtype == np.float32
    assert found.about == ABOUT


def test_csv_has_a_line_per_row_with_every_digit_and_no_name_is_a_formula(rows, tmp_path):
    rows.save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", errors="surrogateescape") as file:
        head, *lines = csv.reader(file)
    assert head == ["name", "scale", "cell", "left", "top", "right", "bottom", "f0", "f1", "f2"]
    assert [line[0] for line in lines] == ["a, b.jpg", "'=1+1.jpg", "x/\udcff.jpg", "'-ü.jpg"]
    assert [line[1:3] for line in lines] == [["0", "0"], ["1", "3"], ["0", "0"], ["0", "0"]]
    found = np.array([line[3:] for line in lines], np.float32)
    assert np.array_equal(found, np.hstack([rows.boxes, rows.features]))


def test_parquet_without_pyarrow_names_its_command(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install pyarrow"):
        rows.save(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(rows, tmp_path):
    with pytest.raises(ValueError, match=r"\.npz, \.csv, \.parquet.*a\.pt"):
        rows.save(tmp_path / "a.pt")
    (tmp_path / "a.csv").touch()
    with pytest.raises(ValueError, match=r"\.npz or \.parquet.*a\.csv"):
        read_embeddings(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        read_embeddings(tmp_path / "gone.npz")
    (tmp_path / "a.npz").write_text("damaged")
    with pytest.raises(ValueError, match=r"a\.npz cannot be read"):
        read_embeddings(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", features=rows.features)
    with pytest.raises(ValueError, match=r"b\.npz cannot be read"):
        read_embeddings(tmp_path / "b.npz")
