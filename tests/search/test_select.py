import csv

import numpy as np
import pytest
from PIL import Image

import mmssprl
from mmssprl.cli import main
from mmssprl.features.extract import Images
from mmssprl.search import Embeddings
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
    while len(wanted) < 30:
        away = [min(np.linalg.norm(u - units[j]) for j in wanted) for u in units]
        wanted.append(int(np.argmax(away)))
    for num in (1, 7, 30):
        found = mmssprl.select(random, num=num)
        assert rows(found) == wanted[:num]
        assert [each.rank for each in found] == [*range(1, num + 1)]
    cosines = [max(units[row] @ units[j] for j in wanted[:i]) for i, row in enumerate(wanted) if i]
    assert [each.cosine for each in found] == pytest.approx([1, *cosines], abs=1e-5)


def test_typical_images_and_outliers_by_hand():
    features = at_degrees(0, 4, 8, 90, 93, 180)
    typical = mmssprl.select(embeddings(features), num=3, method="typical")
    assert rows(typical) == [1, 3, 5]
    cosines = np.cos(np.deg2rad([4, 3, 0]))
    assert [each.cosine for each in typical] == pytest.approx(cosines, abs=1e-6)
    outliers = mmssprl.select(embeddings(features), num=2, method="outliers")
    cosines = np.cos(np.deg2rad([180, 176, 172, 90, 87]))
    assert outliers[0].image == "5"
    assert outliers[0].cosine == pytest.approx(cosines.mean(), abs=1e-6)


@pytest.mark.parametrize("method", ["diverse", "typical", "outliers"])
def test_equal_images_and_a_single_one(method):
    found = mmssprl.select(embeddings(np.ones((60, 2))), num=55, method=method)
    assert len({each.image for each in found}) == 55
    assert len({each.image for each in mmssprl.select(embeddings([[1, 2]]), method=method)}) == 1


def test_chains_of_duplicates_are_groups_of_which_the_largest_image_is_kept():
    known = embeddings(at_degrees(0, 90, 181, 1, 180, 2, 270), [40, 40, 50, 80, 50, 60, 40])
    found = mmssprl.select(known, method="duplicates", above=float(np.cos(np.deg2rad(1.2))))
    shown = [(each.rank, each.image, each.keep) for each in found]
    assert sorted(shown[:3]) == [(1, "0", False), (1, "3", True), (1, "5", False)]
    assert shown[3:] == [(2, "2", True), (2, "4", False)]  # the first of equal sizes
    assert found[4].cosine == pytest.approx(np.cos(np.deg2rad(1)), abs=1e-6)


def test_copies_are_found_at_a_cosine_of_one(random):
    twice = embeddings(np.concatenate([random.features, random.features]))
    found = mmssprl.select(twice, method="duplicates", above=1.0, num=7)
    assert [each.rank for each in found] == [i for i in range(1, 8) for _ in "ab"]
    assert rows(found)[:4] == [0, 30, 1, 31]


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


def test_the_command_writes_a_list_and_a_contact_sheet(config, photos, tmp_path, capsys):
    file, sheet, table = (tmp_path / name for name in ("a.npz", "a.png", "a.csv"))
    Image.open(photos / "a/2.jpg").resize((96, 80)).save(photos / "large.png")
    mmssprl.embed("random", photos, config=config, device="cpu", progress=False).save(file)
    command = ["select", str(file), "--num", "9", "--out"]
    assert main([*command, str(table)]) == 0
    assert "9 of 11 images" in capsys.readouterr().out
    found = mmssprl.select(file, num=9)
    lines = list(csv.DictReader(table.read_text().splitlines()))
    assert [line["image"] for line in lines] == [each.image for each in found]
    figure = draw_selected(found, Images(photos), "diverse")
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left")[:2] for axes in shown] == [f"{i}:" for i in range(1, 10)]
    # Duplicates, with the one to keep.
    assert main(["select", str(file), "--method", "duplicates"]) == 0
    assert "can go" in capsys.readouterr().out
    found = mmssprl.select(file, method="duplicates", above=0.99)
    (kept,) = [each for each in found if each.image == "large.png"]
    assert kept.keep
    figure = draw_selected(found, Images(photos), "duplicates")
    assert figure.axes[0].get_title(loc="left") == "1: kept"
    # Images that have moved.
    command, moved = [*command, str(sheet), "--overwrite"], photos.rename(tmp_path / "moved")
    assert main(command) == 2
    assert "error: images (--images) must be" in capsys.readouterr().err
    command += ["--images", str(moved)]
    assert main(command) == 0
    assert Image.open(sheet).width > 8 * 150
    (moved / "large.png").unlink()
    assert main([*command, "--num", "11"]) == 2
    assert "but large.png is not in " in capsys.readouterr().err
