import csv
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.cluster import DBSCAN
from sklearn.preprocessing import normalize

import mmssprl
from mmssprl.cli import main
from mmssprl.features.extract import Images
from mmssprl.search import Embeddings, selection
from mmssprl.search.contact_sheet import draw_selected


def embeddings(features, sizes=None):
    """Return embeddings of square images "0", "1", ... with these sides in pixels."""
    num = len(features)
    sides = np.array(sizes or [40] * num, np.float32)
    boxes = np.stack([sides / 4, sides / 4, sides * 3 / 4, sides * 3 / 4], axis=1)
    names = [str(i) for i in range(num)]
    return Embeddings(names, boxes, np.asarray(features, np.float32))


def at_degrees(*degrees):
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def rows(found):
    return [int(each.image) for each in found]


@pytest.fixture
def random():
    return embeddings(np.random.default_rng(0).standard_normal((30, 4)))


def test_diverse_images_are_those_of_a_loop_in_float64(random):
    x = random.features.astype(np.float64)
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    wanted = [int((units @ units.mean(axis=0)).argmax())]
    cosines = [1.0]
    while len(wanted) < 30:
        distances = np.linalg.norm(units[:, None] - units[wanted], axis=2)  # (30, chosen)
        row = int(distances.min(axis=1).argmax())
        cosines.append((units[wanted] @ units[row]).max())
        wanted.append(row)

    for num in (1, 7, 30):
        found = mmssprl.select(random, num=num)
        assert rows(found) == wanted[:num]
        assert [each.rank for each in found] == [*range(1, num + 1)]
    assert [each.cosine for each in found] == pytest.approx(cosines, abs=1e-5)


@pytest.mark.parametrize(("num_images", "num"), [(1, 1), (5, 2), (30, 15), (400, 100)])
def test_at_most_half_of_the_images_are_selected_by_default(num_images, num):
    features = np.random.default_rng(0).standard_normal((num_images, 4))
    assert len(mmssprl.select(embeddings(features))) == num


@pytest.mark.parametrize(("degrees", "is_told"), [(0.1, True), (3, False)])
def test_features_that_hardly_differ_are_reported(degrees, is_told, tmp_path, capsys):
    spread = np.random.default_rng(0).uniform(-degrees, degrees, 12)
    file = tmp_path / "photos.npz"
    embeddings(at_degrees(*spread)).save(file)
    assert main(["select", str(file)]) == 0
    assert ("hardly differ between the images" in capsys.readouterr().out) == is_told


FEATURES = at_degrees(0, 4, 8, 90, 93, 180)


def test_typical_images_by_hand():
    typical = mmssprl.select(embeddings(FEATURES), num=3, method="typical")
    assert rows(typical) == [1, 3, 5]
    cosines = np.cos(np.deg2rad([4, 3, 0]))
    assert [each.cosine for each in typical] == pytest.approx(cosines, abs=1e-6)


def test_outliers_by_hand():
    outliers = mmssprl.select(embeddings(FEATURES), num=2, method="outliers")
    cosines = np.cos(np.deg2rad([180, 176, 172, 90, 87]))
    assert outliers[0].image == "5"
    assert outliers[0].cosine == pytest.approx(cosines.mean(), abs=1e-6)


@pytest.mark.parametrize("method", ["diverse", "typical", "outliers"])
class TestDegenerate:
    def test_equal_images_are_selected_once_each(self, method):
        found = mmssprl.select(embeddings(np.ones((60, 2))), num=55, method=method)
        assert len({each.image for each in found}) == 55

    def test_a_single_image_is_selected(self, method):
        found = mmssprl.select(embeddings([[1, 2]]), method=method)
        assert [each.image for each in found] == ["0"]


def test_chains_of_duplicates_are_groups_of_which_the_largest_image_is_kept():
    known = embeddings(at_degrees(0, 90, 181, 1, 180, 2, 270), [40, 40, 50, 80, 50, 60, 40])
    found = mmssprl.select(known, method="duplicates", above=float(np.cos(np.deg2rad(1.2))))
    shown = [(each.rank, each.image, each.keep) for each in found]
    assert sorted(shown[:3]) == [(1, "0", False), (1, "3", True), (1, "5", False)]
    assert shown[3:] == [(2, "2", True), (2, "4", False)]  # the first of equal sizes
    assert found[4].cosine == pytest.approx(np.cos(np.deg2rad(1)), abs=1e-6)


def test_of_a_file_and_a_link_to_it_the_link_can_go(tmp_path):
    known = embeddings([[1, 2], [1, 2]])
    (tmp_path / "0").symlink_to(tmp_path / "1")
    found = mmssprl.select(replace(known, about={"images": str(tmp_path)}), method="duplicates")
    assert [(each.image, each.keep) for each in found] == [("1", True), ("0", False)]


def test_of_equally_large_images_the_largest_file_is_kept():
    identities = np.zeros((4, 5), np.int64)
    identities[:, 0] = [500, 900, 700, 9999]  # the last one has fewer pixels
    known = replace(embeddings([[1, 2]] * 4, [80, 80, 80, 40]), identities=identities)
    found = mmssprl.select(known, method="duplicates")
    assert [each.image for each in found if each.keep] == ["1"]


def test_copies_are_found_at_a_cosine_of_one(random):
    twice = embeddings(np.concatenate([random.features, random.features]))
    found = mmssprl.select(twice, method="duplicates", above=1.0, num=7)
    assert [each.rank for each in found] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert rows(found)[:4] == [0, 30, 1, 31]


@pytest.mark.parametrize("pairs", [1, 100, 2**22])
@pytest.mark.parametrize("seed", range(3))
def test_groups_are_those_of_dbscan(pairs, seed, monkeypatch):
    monkeypatch.setattr(selection, "_PAIRS_AT_A_TIME", pairs)
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((40, 3))
    units = normalize(places[rng.integers(0, 40, 150)] + 0.04 * rng.standard_normal((150, 3)))
    units = units.astype(np.float32)
    found = selection.linked_groups(units, 0.002)
    assert 20 < found.max() < 100
    wanted = DBSCAN(0.002, min_samples=1, metric="cosine").fit_predict(units)
    assert np.array_equal(found, wanted)


def test_groups_of_images_that_are_all_alike_take_little_memory():
    units = np.full((6000, 4), 0.5, np.float32)
    tracemalloc.start()
    found = selection.linked_groups(units, 1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not found.any()
    assert peak < 250e6  # the lists of all neighbours are 537 MiB


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num": 0}, r"^num must be in \[1, 30\], the number of images, but got 0"),
        ({"num": 31}, "^num must .* 30.* 31"),
        ({"method": "duplicates", "above": 98.0}, r"^above .*\[-1, 1\].* 98"),
    ],
)
def test_mistakes(random, options, message):
    with pytest.raises(ValueError, match=message):
        mmssprl.select(random, **options)


@pytest.fixture
def file(config, photos, tmp_path):
    """Embeddings of the photographs; large.png is a larger copy of one."""
    Image.open(photos / "a/2.jpg").resize((96, 80)).save(photos / "large.png")
    path = tmp_path / "a.npz"
    mmssprl.embed("random", photos, config=config, device="cpu", progress=False).save(path)
    return path


def test_the_command_writes_a_list(file, tmp_path, capsys):
    table = tmp_path / "a.csv"
    assert main(["select", str(file), "--num", "9", "--out", str(table)]) == 0
    assert "9 of 11 images" in capsys.readouterr().out
    lines = list(csv.DictReader(table.read_text().splitlines()))
    assert [line["image"] for line in lines] == [x.image for x in mmssprl.select(file, num=9)]


def test_a_sheet_shows_the_ranks(file, photos):
    figure = draw_selected(mmssprl.select(file, num=9), Images(photos), "diverse")
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left")[:2] for axes in shown] == [f"{i}:" for i in range(1, 10)]


def test_the_command_says_how_many_duplicates_can_go(file, capsys):
    assert main(["select", str(file), "--method", "duplicates"]) == 0
    assert "can go" in capsys.readouterr().out


def test_a_sheet_of_duplicates_shows_the_one_to_keep(file, photos):
    found = mmssprl.select(file, method="duplicates", above=0.99)
    (kept,) = [each for each in found if each.image == "large.png"]
    assert kept.keep
    figure = draw_selected(found, Images(photos), "duplicates")
    assert figure.axes[0].get_title(loc="left") == "1: kept"
    assert figure.get_suptitle() == f"duplicates: {len(found)} images, cosine to the kept one"


class TestSheetsOfMovedImages:
    @pytest.fixture
    def command(self, file, tmp_path):
        return ["select", str(file), "--num", "11", "--out", str(tmp_path / "a.png")]

    @pytest.fixture
    def moved(self, file, photos, tmp_path):
        return photos.rename(tmp_path / "moved")

    def test_need_their_folder(self, command, moved, capsys):
        assert main(command) == 2
        assert "error: images (--images) must be" in capsys.readouterr().err

    def test_are_drawn_from_it(self, command, moved, tmp_path):
        assert main([*command, "--images", str(moved)]) == 0
        assert Image.open(tmp_path / "a.png").width > 8 * 150

    def test_need_each_of_them(self, command, moved, capsys):
        (moved / "large.png").unlink()
        assert main([*command, "--images", str(moved)]) == 2
        assert "but large.png is not in " in capsys.readouterr().err
