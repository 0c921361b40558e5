import csv
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from probe_folders import write_image

import mmssprl
from mmssprl.cli import main
from mmssprl.features.figure import MOST_ROWS, draw_neighbors
from mmssprl.features.folder import embed_to_file
from mmssprl.features.images import Images
from mmssprl.features.nearest_neighbors import nearest
from mmssprl.features.neighbors import find_neighbors


class TestNearest:
    def test_hand_made_cosines_of_any_norm(self):
        features = torch.tensor([[2.0, 0], [0, 5], [3, 3], [-1, 0]])
        indices, cosines = nearest(torch.tensor([[10.0, 0]]), features, 3)
        assert indices.tolist() == [[0, 2, 1]]
        torch.testing.assert_close(cosines, torch.tensor([[1, 0.5**0.5, 0]]))

    def test_an_excluded_feature_is_never_found(self):
        features = torch.eye(4)
        own = np.array([1, -1])
        indices, _ = nearest(features[[1, 2]], features, 9, excluded=own)
        assert indices.shape == (2, 3)
        assert 1 not in indices[0]
        assert indices[1, 0] == 2

    def test_blocks_of_queries_change_nothing(self, monkeypatch):
        features = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
        wanted = nearest(features, features, 5, excluded=np.arange(20))
        monkeypatch.setattr("mmssprl.features.nearest_neighbors._QUERIES_AT_A_TIME", 3)
        found = nearest(features, features, 5, excluded=np.arange(20))
        assert torch.equal(found[0], wanted[0])


@pytest.fixture
def doubled(photos):
    """Two photographs have a twin each: a copy, and one in another format."""
    shutil.copy(photos / "a" / "1.jpg", photos / "copy.jpg")
    Image.open(photos / "a" / "2.jpg").save(photos / "again.png")
    return photos


class TestFindNeighbors:
    def test_a_twin_is_the_nearest_and_an_image_is_not_its_own(self, config, doubled):
        rows = find_neighbors("random", doubled / "a" / "1.jpg", doubled, config=config, num=3)
        ((first, *others),) = rows
        assert first.path == str(doubled / "copy.jpg")
        assert first.similarity == pytest.approx(1)
        assert [each.rank for each in (first, *others)] == [1, 2, 3]
        assert all(first.similarity >= each.similarity for each in others)
        assert str(doubled / "a" / "1.jpg") not in [each.path for each in others]

    def test_pairs_above_a_similarity_are_listed_once(self, config, doubled):
        rows = find_neighbors("random", doubled, doubled, config=config, above=0.99999)
        pairs = [{each.query, each.path} for row in rows for each in row]
        assert pairs == [
            {str(doubled / "a" / "1.jpg"), str(doubled / "copy.jpg")},
            {str(doubled / "a" / "2.jpg"), str(doubled / "again.png")},
        ]

    def test_embeddings_of_a_file_give_the_same(self, config, doubled, tmp_path, monkeypatch):
        model = mmssprl.load_backbone("random", config)
        options = {"config": config, "num": 4}
        wanted = find_neighbors("random", doubled, doubled, **options)
        embed_to_file("random", doubled, tmp_path / "a.npz", config=config, patches=True)
        monkeypatch.setattr(type(model), "forward", None)  # nothing is computed again
        found = find_neighbors("random", doubled, doubled, embeddings=tmp_path / "a.npz", **options)
        assert [[e.path for e in row] for row in found] == [[e.path for e in r] for r in wanted]

    def test_embeddings_of_others_are_refused(self, config, photos, tmp_path):
        embed_to_file("random", photos, tmp_path / "a.npz", config=config)
        options = {"config": config, "embeddings": tmp_path / "a.npz"}
        with pytest.raises(ValueError, match=r"made of others: the weights changed; run `embed`"):
            find_neighbors("random", photos, photos, seed=1, **options)
        write_image(photos / "new.jpg", ["red"], 77)
        with pytest.raises(ValueError, match="the list of images changed"):
            find_neighbors("random", photos, photos, **options)
        (tmp_path / "a.txt").touch()
        options["embeddings"] = tmp_path / "a.txt"
        with pytest.raises(ValueError, match=r"^--embeddings must .* .npz or .*; run"):
            find_neighbors("random", photos, photos, **options)

    def test_mistakes(self, config, photos):
        with pytest.raises(FileNotFoundError, match="^QUERY must be a folder .* or an image"):
            find_neighbors("random", photos / "gone.jpg", photos, config=config)
        with pytest.raises(ValueError, match="--num must be at least 1 neighbour, but got 0"):
            find_neighbors("random", photos, photos, config=config, num=0)
        with pytest.raises(ValueError, match=r"--above must be a cosine in \[-1, 1\], but got 98"):
            find_neighbors("random", photos, photos, config=config, above=98)


class TestPicture:
    def test_a_row_for_each_query_with_neighbours(self, config, photos):
        rows = find_neighbors("random", photos / "a", photos, config=config, num=2)
        rows.insert(0, [])
        figure = draw_neighbors(rows, Images(photos / "a"), Images(photos))
        shown = [axes for axes in figure.axes if axes.images]
        assert len(shown) == 4 * 3
        assert [axes.get_title() for axes in shown[::3]] == ["asked for"] * 4
        assert shown[1].get_title() == f"{rows[1][0].similarity:.3f}"
        names = [axes.texts[0].get_text() for axes in shown[::3]]
        assert names == [f"{i}.jpg" for i in range(4)]

    def test_the_first_rows_are_drawn_and_the_title_says_so(self, config, photos):
        for i in range(10, 14):
            write_image(photos / "a" / f"{i}.jpg", ["red"], i)
        rows = find_neighbors("random", photos, photos, config=config, num=1)
        figure = draw_neighbors(rows, Images(photos), Images(photos))
        assert sum(bool(axes.images) for axes in figure.axes) == 2 * MOST_ROWS
        assert figure.get_suptitle().endswith(f", first {MOST_ROWS} of 14 rows")


def test_the_command_prints_a_table_and_writes_picture_and_csv(config, doubled, tmp_path, capsys):
    out, table = tmp_path / "rows.png", tmp_path / "rows.csv"
    command = ["neighbors", "random", str(doubled), str(doubled), "--config", str(config)]
    command += ["--above", "0.99999", "--num-workers", "0", "--out", str(out), "--csv", str(table)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "| a/1.jpg | copy.jpg  |    1 | 1.0000 |" in printed
    assert "2 neighbours of 2 of 12 images" in printed
    assert Image.open(out).width > 100
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["nearest"] for row in rows] == [str(doubled / n) for n in ("copy.jpg", "again.png")]
    assert main(command) == 2
    assert "the output must not exist yet" in capsys.readouterr().err


def test_without_a_pair_no_picture_is_written_and_the_highest_cosine_is_told(
    config, photos, tmp_path, capsys
):
    out = tmp_path / "rows.png"
    command = ["neighbors", "random", str(photos), str(photos), "--config", str(config)]
    command += ["--above", "0.9999999", "--num-workers", "0", "--out", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "no cosine is as great as 0.9999999: the highest is 0.9" in printed
    assert "picture: none, for there is no neighbour to draw" in printed
    assert not out.exists()


def test_a_name_that_is_no_utf_8_is_printed_drawn_and_written(config, photos, tmp_path):
    (photos / "a" / "1.jpg").rename(photos / "a" / "caf\udce9.jpg")
    command = ["-m", "mmssprl", "neighbors", "random", str(photos / "a"), str(photos / "a")]
    command += ["--config", str(config), "--num-workers", "0", "--num", "1"]
    command += ["--out", str(tmp_path / "a.png"), "--csv", str(tmp_path / "a.csv")]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run([sys.executable, *command], env=strict, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert rb"| caf\udce9.jpg |" in done.stdout
    assert b"/caf\xe9.jpg," in (tmp_path / "a.csv").read_bytes()
