import json
import re
from itertools import combinations

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import CROP, build, folder, greens, lock_folders, names, save
from torch.utils.data import DataLoader

from mmssprl.datasets import unlabeled_images
from mmssprl.datasets.bad_images import BadImages


def read_list(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_folders_that_cannot_be_listed(tmp_path, monkeypatch, warnings):
    save(tmp_path / "a.jpg")
    save(tmp_path / "locked" / "b.jpg")
    lock_folders(monkeypatch)
    assert names(build(tmp_path), tmp_path) == ["a.jpg"]
    (warning,) = warnings
    assert re.search("1 folder below .*locked", warning)


def test_list_file_keeps_its_order_of_relative_or_absolute_paths(tmp_path):
    save(tmp_path / "images" / "a.jpg")
    save(tmp_path / "images" / "no_suffix.png")
    (tmp_path / "images" / "no_suffix.png").rename(tmp_path / "images" / "no_suffix")
    save(tmp_path / "other" / "b.jpg")
    lines = f"\ufeffno_suffix\r\n\r\n{tmp_path}/other/b.jpg\n  a.jpg  \n"
    (tmp_path / "list.txt").write_text(lines, encoding="utf-8")
    dataset = build(tmp_path, ann_file="list.txt", data_prefix="images")
    assert names(dataset, tmp_path) == ["images/no_suffix", "other/b.jpg", "images/a.jpg"]
    assert dataset[0]["img"].shape == (3, 20, 16)


def test_list_file_of_a_drive_that_ignores_case(tmp_path, monkeypatch):
    save(tmp_path / "a.jpg")
    (tmp_path / "list.txt").write_text("a.jpg")
    # Such a drive lists other names than it opens.
    monkeypatch.setattr("os.listdir", lambda folder: ["A.JPG"])
    assert len(build(tmp_path, ann_file="list.txt")) == 1


def test_coco_file_gives_its_images(tmp_path):
    folder(tmp_path / "images", 3)
    images = [{"file_name": "02.png"}, {"file_name": "00.png"}]  # need no ids
    (tmp_path / "captions.json").write_text(json.dumps({"images": images}))
    dataset = build(tmp_path / "images", ann_file="../captions.json")
    assert greens(dataset) == [2, 0]  # iterates, hence raises IndexError at its end


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"root": ""}, ValueError, "got an empty path"),
        ({"root": "https://a/b.tar"}, ValueError, "https://a/b.tar is a URL; download it first"),
        ({"data_prefix": "none"}, FileNotFoundError, "there is no .*none; "),
        ({"data_prefix": "n.txt"}, ValueError, "n.txt' is a text; `tar cf listed.tar -T LIST`"),
        ({"data_prefix": "no.json"}, ValueError, "no.json: must be an uncompressed tar file"),
        ({"data_prefix": "text"}, ValueError, r".jpg, .* .tiff.*none among 2 files"),
        ({"data_prefix": "00.png"}, ValueError, "is one image; give its folder"),
        ({"ann_file": "none.txt"}, FileNotFoundError, "there is no ann_file .*none.txt'"),
        ({"ann_file": "n.txt"}, FileNotFoundError, r"n.txt: .* 2 of 3 .*b.jpg', .*c.jpg'\]"),
        ({"ann_file": "empty.txt"}, ValueError, "empty.txt: must name at least one image"),
        ({"ann_file": "empty.json"}, ValueError, "empty.json: must name at least one image"),
        ({"ann_file": "no.json"}, ValueError, "no.json: .*'images'"),
        ({"ann_file": "unnamed.json"}, ValueError, "unnamed.json: .* must have file_name"),
        ({"data_prefix": "both"}, ValueError, "1 image and old.tar"),
        ({"data_prefix": "both/old.tar", "ann_file": "list.txt"}, ValueError, "must be empty .*-T"),
        ({"ann_file": "00.png"}, ValueError, "ann_file must end in .txt .* or .json"),
        ({"max_bad_share": 1.5}, ValueError, r"max_bad_share .*1.5"),
    ],
)
def test_sources_without_images(tmp_path, options, error, match):
    folder(tmp_path, 1)
    (tmp_path / "text").mkdir()
    for name in ("text/a", "text/b.txt", "text/.jpg", "empty.txt"):
        (tmp_path / name).write_text("\n")
    (tmp_path / "empty.json").write_text('{"images": []}')
    (tmp_path / "no.json").write_text('{"annotations": []}')
    (tmp_path / "n.txt").write_text("b.jpg\n00.png\nc.jpg\n")
    (tmp_path / "unnamed.json").write_text('{"images": [{"id": 1}]}')
    (folder(tmp_path / "both", 1) / "old.tar").touch()
    with pytest.raises(error, match=match):
        build(**{"root": tmp_path, **options})


def test_item_without_an_epoch(tmp_path):
    item = build(folder(tmp_path, 5))[3]
    assert set(item) == {"img_path", "img", "sample_idx"}
    assert item["img_path"] == str(tmp_path / "03.png")
    expected = [torch.arange(16).expand(20, 16), *torch.full((2, 20, 16), 3)]
    assert item["img"].tolist() == torch.stack(expected).tolist()


def test_item_with_an_epoch_has_a_crop_seed(tmp_path):
    dataset = build(folder(tmp_path, 5))
    dataset.set_epoch(4, seed=9)
    assert dataset[3]["crop_seed"] == (9, 4, 3)
    assert dataset[np.int64(-1)]["crop_seed"] == (9, 4, 4)
    dataset.set_epoch(0, 0)
    assert dataset[3]["crop_seed"] == (0, 0, 3)


def test_an_index_beyond_the_images_is_an_error(tmp_path):
    dataset = build(folder(tmp_path, 5))
    with pytest.raises(IndexError):
        dataset[5]


def crops_in(loader):
    return [batch["inputs"][0] for batch in loader]


def test_crops_depend_on_the_crop_seed_but_not_on_workers(tmp_path):
    dataset = build(folder(tmp_path, 6), pipeline=[CROP])
    alone = DataLoader(dataset, 2)
    workers = DataLoader(dataset, 2, num_workers=2, persistent_workers=True)
    by_seed = {}
    for epoch, seed in ((0, 1), (1, 1), (0, 2), (0, 1)):
        dataset.set_epoch(epoch, seed)  # must reach workers that run since the first round
        crops = crops_in(alone)
        got = by_seed.setdefault((epoch, seed), crops)
        assert all(map(torch.equal, got, crops_in(workers)))

    firsts = [got[0] for got in by_seed.values()]
    assert len(firsts) == 3
    assert not any(torch.equal(one, other) for one, other in combinations(firsts, 2))
    # Two images of the same content and two epochs share no crop: index and epoch both count.
    assert not torch.equal(firsts[0][0, :, 0], firsts[0][1, :, 0])


def test_subsets(tmp_path):
    folder(tmp_path, 6)
    for indices, wanted in (([], []), ([5, -6, 5], [5, 0, 5]), (range(1, 6, 2), [1, 3, 5])):
        dataset = build(tmp_path)
        assert greens(dataset.get_subset(indices)) == wanted
        assert len(dataset) == 6
    with pytest.raises(IndexError):
        build(tmp_path).get_subset([6])


@pytest.fixture
def three_bad(tmp_path):
    """A folder of 30 images, and the paths of three that cannot be decoded."""
    root = folder(tmp_path / "images", 30, bad=[1, 2, 3])
    return root, [str(root / f"0{i}.png") for i in (1, 2, 3)]


def with_list(root, bad_list):
    dataset = build(root, max_bad_share=0.1)
    dataset.record_bad_images(bad_list)
    return dataset


def test_bad_images_are_replaced_in_each_epoch(three_bad, warnings):
    dataset = build(three_bad[0], max_bad_share=0.1)
    for epoch in range(3):
        dataset.set_epoch(epoch, 0)
        items = list(dataset)
        assert greens(items)[4:] == list(range(4, 30))
        assert greens(items) == [item["sample_idx"] for item in items]
        assert not {1, 2, 3} & {*greens(items)}
        assert items[2]["crop_seed"] == (0, epoch, 2)


def test_bad_images_are_read_once(three_bad, warnings, monkeypatch):
    root, paths = three_bad
    read = unlabeled_images.read_image
    seen = []
    monkeypatch.setattr(
        unlabeled_images, "read_image", lambda path: seen.append(path) or read(path)
    )
    dataset = build(root, max_bad_share=0.1)
    for _ in range(2):
        list(dataset)
    assert [seen.count(path) for path in paths] == [1, 1, 1]


def test_bad_images_are_listed_with_the_same_line_as_in_the_log(three_bad, tmp_path, warnings):
    root, paths = three_bad
    bad_list = tmp_path / "run/bad.txt"
    dataset = with_list(root, bad_list)
    assert not bad_list.exists()
    for _ in range(2):
        list(dataset)
        for line, warning, path in zip(read_list(bad_list), warnings, paths, strict=True):
            assert line[0] == path
            assert line[1].startswith("it cannot be decoded (")
            assert warning.startswith(f"{path}: it cannot be decoded (")
        dataset = with_list(root, bad_list)  # of a resumed run


def test_bad_images_of_all_runs_count_together(three_bad, tmp_path, warnings):
    root, _ = three_bad
    bad_list = tmp_path / "run/bad.txt"
    list(with_list(root, bad_list))
    (root / "09.png").write_bytes(b"")
    resumed = with_list(root, bad_list)
    with pytest.raises(RuntimeError, match="unreadable, 4 of 30 .* delete that list"):
        resumed[9]  # its first, but the fourth of the list, which ranks share, too
    with pytest.raises(RuntimeError, match="unreadable, 4 of 30"):
        build(root, max_bad_share=0.1).record_bad_images(bad_list)


def test_replacement_depends_on_the_crop_seed_only(tmp_path, warnings):
    root = folder(tmp_path, 30, bad=range(10))
    first, second = (build(root, max_bad_share=1.0) for _ in range(2))
    drawn = set()
    for epoch in range(5):
        first.set_epoch(epoch, 7)
        second.set_epoch(epoch, 7)
        forward = [first[i]["sample_idx"] for i in range(10)]
        backward = [second[i]["sample_idx"] for i in reversed(range(10))]  # meets others first
        assert forward == backward[::-1]
        drawn.update(forward)
    assert min(drawn) >= 10
    assert len(drawn) > 10


@pytest.mark.parametrize(
    ("num_images", "share", "most"),
    [
        (100, 0.01, 1),
        (200, 0.01, 2),
        (10, 0.01, 1),  # one is tolerated, however few images
        (10, 0.0, 0),  # but not if none may be bad
        (3, 1.0, 2),  # nothing would be left to replace them
        (1, 0.5, 0),
    ],
)
def test_training_stops_at_a_fraction_of_bad_images(warnings, num_images, share, most):
    bad_images = BadImages(num_images, share)
    for index in range(most):
        bad_images.add(index, f"{index}.jpg", "broken")
        bad_images.add(index, f"{index}.jpg", "broken")  # counts once
    message = rf"max_bad_share={share}: .*, {most + 1} of {num_images} .* raise max_bad_share"
    with pytest.raises(RuntimeError, match=message):
        bad_images.add(most, "last.jpg", "broken")
    assert len(warnings) == most + 1
