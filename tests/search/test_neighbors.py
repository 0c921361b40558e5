import csv
import shutil

import pytest
import torch
from helpers.features.probe_folders import write_image
from PIL import Image

from mmssprl.cli import main
from mmssprl.features import FeatureBackbone, load_backbone
from mmssprl.search import embed
from mmssprl.search import neighbors as find
from mmssprl.search.neighbor_search import nearest


def test_hand_made_cosines_of_any_norm():
    features = torch.tensor([[2.0, 0], [0, 5], [3, 3], [-1, 0]])
    excluded = torch.tensor([-1])
    indices, cosines = nearest(torch.tensor([[10.0, 0]]), features, 3, excluded=excluded)
    assert indices.tolist() == [[0, 2, 1]]
    torch.testing.assert_close(cosines, torch.tensor([[1, 0.5**0.5, 0]]))


@pytest.fixture
def doubled(photos):
    """Photographs, two of them with a twin: a copy, and one in another format."""
    shutil.copy(photos / "a" / "1.jpg", photos / "copy.jpg")
    Image.open(photos / "a" / "2.jpg").save(photos / "again.png")
    return photos


def neighbors(*args, **options):
    return find(*args, device="cpu", progress=False, **options)


def test_kept_embeddings_give_the_same_neighbors(config, doubled, tmp_path, monkeypatch):
    wanted = neighbors("random", doubled, doubled, config=config, num=4)
    model = load_backbone("random", config)
    kept = embed(model, doubled, device="cpu", progress=False)
    kept.save(tmp_path / "a.npz")
    monkeypatch.setattr(FeatureBackbone, "forward", None)  # nothing is computed again
    for known in (kept, tmp_path / "a.npz"):
        found = neighbors("random", doubled, doubled, config=config, num=4, embeddings=known)
        assert found == wanted


@pytest.fixture
def file(config, photos, tmp_path):
    """Embeddings of the photographs."""
    path = tmp_path / "a.npz"
    embed("random", photos, config=config, device="cpu", progress=False).save(path)
    return path


def test_embeddings_of_other_weights_are_refused(config, photos, file):
    with pytest.raises(ValueError, match="embeddings .*differ in weights_sha256"):
        neighbors(load_backbone("random", config, seed=1), photos, photos, embeddings=file)


def test_no_neighbour_is_refused(config, photos):
    with pytest.raises(ValueError, match="^num .* 0"):
        neighbors("random", photos, photos, config=config, num=0)


def test_embeddings_of_other_images_are_refused(config, photos, file):
    write_image(photos / "new.jpg", ["red"], 77)
    with pytest.raises(ValueError, match="differ in images;"):
        neighbors("random", photos, photos, config=config, embeddings=file)


class TestCommand:
    @pytest.fixture
    def command(self, config, doubled):
        """A `neighbors` that lacks OUT."""
        words = ["neighbors", "random", str(doubled / "a"), str(doubled), "--config", str(config)]
        return [*words, "--num", "1", "--out"]

    def test_prints_a_table_next_to_the_picture(self, command, doubled, tmp_path, capsys):
        assert main([*command, str(tmp_path / "rows.png")]) == 0
        printed = capsys.readouterr().out
        assert f"| {doubled}/a/1.jpg " in printed
        assert "4 neighbours of 4 images" in printed
        assert Image.open(tmp_path / "rows.png").width > 100

    def test_writes_csv(self, command, doubled, tmp_path):
        assert main([*command, str(tmp_path / "rows.csv")]) == 0
        rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
        found = {row["query"]: row["nearest"] for row in rows}
        assert found[str(doubled / "a/1.jpg")] == str(doubled / "copy.jpg")

    def test_replaces_no_file(self, command, tmp_path, capsys):
        (tmp_path / "rows.png").write_text("mine")
        assert main([*command, str(tmp_path / "rows.png")]) == 2
        assert "--overwrite" in capsys.readouterr().err
        assert (tmp_path / "rows.png").read_text() == "mine"
