import io
from base64 import b64decode

import numpy as np
import pytest
from helpers.features.probe_folders import write_image
from PIL import Image

from mmssprl.cli import main
from mmssprl.features import read_embeddings
from mmssprl.features.map_columns import project


def test_places_keep_clusters_together_and_are_the_same_again(monkeypatch):
    noise = np.random.default_rng(0).normal(size=(24, 16))
    features = (np.repeat(np.eye(3, 16), 8, axis=0) + 0.02 * noise).astype(np.float32)
    places = project(features)
    away = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(24, np.inf))
    assert (away.argmin(axis=1) // 8 == np.arange(24) // 8).all()
    assert (project(features * 4) == places).all()  # a power of two, by which nothing is rounded
    assert project(features[:1]).tolist() == [[0, 0]]
    assert np.isfinite(project(np.ones((9, 3), np.float32))).all()
    monkeypatch.setattr("mmssprl.features.map_columns.MOST_PLACED", 20)
    centred = features / np.linalg.norm(features, axis=1, keepdims=True)
    centred -= centred.mean(axis=0)
    spread = np.linalg.svd(centred, compute_uv=False)[:2]
    assert np.linalg.norm(project(features), axis=0) == pytest.approx(spread, rel=1e-4)


@pytest.fixture
def embed(config, photos, tmp_path, capsys):
    def run(out, *words):
        command = ["embed", "random", str(photos), str(tmp_path / out), "--config", str(config)]
        status = main([*command, "--num-workers", "0", *words])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_a_table_has_thumbnails_of_what_was_seen_places_and_classes(embed, photos, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    Image.new("RGB", (90, 40), "blue").save(photos / "a" / "blue.png")
    Image.new("RGB", (1, 1)).save(photos / "a" / "dot.png")
    status, said = embed("a.parquet", "--patches", "--labels", str(photos))
    assert status == 0
    assert "a.parquet --x projection_x --y projection_y --image image" in said
    table = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    names, num = table["name"], 12 * (1 + 4 + 9)
    assert len(names) == num
    assert table["label"] == [name.split("/")[0] for name in names]
    assert "prototype" not in table
    assert len({*zip(table["projection_x"], table["projection_y"], strict=True)}) > num / 2
    kind, text = table["image"][names.index("a/blue.png")].split(",")
    assert kind == "data:image/jpeg;base64"
    blue = np.asarray(Image.open(io.BytesIO(b64decode(text))))
    assert max(blue.shape) <= 96
    assert abs(blue.astype(int) - [0, 0, 255]).max() < 9
    assert read_embeddings(tmp_path / "a.parquet").names == names


def test_labels_of_others_and_other_formats_are_told_in_one_line(embed, tmp_path, monkeypatch):
    monkeypatch.setattr("mmssprl.features.embedding.check_format", lambda path: None)
    for name in ("b/1.jpg", "c/2.jpg", "b/3.jpg", "c/4.jpg"):
        write_image(tmp_path / "others" / name, ["red"], 1)
    status, said = embed("a.parquet", "--labels", str(tmp_path / "others"))
    assert status == 2
    assert "labels (--labels) must be those of the images, but none of 10 has one in" in said
    assert embed("a.parquet", "--labels", str(tmp_path / "gone"))[0] == 2
    status, said = embed("a.npz", "--labels", str(tmp_path / "others"))
    assert (status, "must go with an output in .parquet" in said) == (2, True)
    assert not list(tmp_path.glob("a.*"))
