import json
import logging
import os
import pickle

import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from PIL import Image
from torch.utils.data import DataLoader

from mmssprl.datasets.bad_images import BadImages
from mmssprl.datasets.unlabeled_images import UnlabeledImages
from mmssprl.registry import DATASETS

CROP = {"type": "PyramidCrop", "layout": {"image_px": 8, "levels": []}}


def save(path, value=0, size=(20, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((*size, 3), value, np.uint8)
    image[:, :, 0] = np.arange(size[1])
    Image.fromarray(image).save(path)


def folder(root, num_images, bad=()):
    """Images 00.png, 01.png, ... whose green is their index; the bad ones are cut off."""
    for i in range(num_images):
        path = root / f"{i:02}.png"
        save(path, i)
        if i in bad:
            path.write_bytes(path.read_bytes()[:60])
    return root


def build(root, **options):
    return DATASETS.build({"type": "UnlabeledImages", "data_root": str(root), **options})


def names(dataset, root):
    paths = [dataset.get_data_info(i)["img_path"] for i in range(len(dataset))]
    return [os.path.relpath(path, root) for path in paths]


def greens(items):
    return [int(item["img"][1, 0, 0]) for item in items]


@pytest.fixture
def warnings(monkeypatch):
    """The messages given to mmengine's logger in this process."""
    messages = []

    def log(message, logger, level):
        assert (logger, level) == ("current", logging.WARNING)
        messages.append(message)

    monkeypatch.setattr("mmssprl.datasets.bad_images.print_log", log)
    monkeypatch.setattr("mmssprl.datasets.unlabeled_images.print_log", log)
    return messages


# Sources


def test_folder_is_searched_recursively_in_sorted_order(tmp_path):
    wanted = ["B.JPEG", "a.jpg", "sub/deep/d.bmp", "sub/e.WebP", "sub/ä ö.Png"]
    for name in [*wanted, ".hidden.jpg", ".cache/f.jpg", "sub/._e.jpg"]:
        save(tmp_path / name)
    for name in ("notes.txt", "sub/g.gif", "h.jpg.part"):
        (tmp_path / name).write_bytes(b"")
    assert names(build(tmp_path), tmp_path) == wanted
    assert names(build(tmp_path, data_prefix="sub"), tmp_path) == wanted[2:]


def test_links_are_followed_but_not_for_ever(tmp_path):
    save(tmp_path / "elsewhere" / "a.jpg")
    root = tmp_path / "root"
    save(root / "b.jpg")
    (root / "class").symlink_to(tmp_path / "elsewhere")
    (root / "class" / "up").symlink_to(root)
    assert names(build(root), root) == ["b.jpg", "class/a.jpg"]


def test_folders_that_cannot_be_listed_are_warned_of(tmp_path, monkeypatch, warnings):
    save(tmp_path / "a.jpg")
    save(tmp_path / "locked" / "b.jpg")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(build(tmp_path), tmp_path) == ["a.jpg"]
    assert len(warnings) == 1
    assert "1 folder(s)" in warnings[0]
    assert "locked" in warnings[0]


def test_list_file_keeps_its_order_and_takes_both_kinds_of_path(tmp_path):
    save(tmp_path / "images" / "a.jpg")
    save(tmp_path / "images" / "no_suffix.png")
    (tmp_path / "images" / "no_suffix.png").rename(tmp_path / "images" / "no_suffix")
    save(tmp_path / "other" / "b.jpg")
    lines = f"\ufeffno_suffix\r\n\r\n{tmp_path}/other/b.jpg\n  a.jpg  \n"
    (tmp_path / "list.txt").write_text(lines, encoding="utf-8")
    dataset = build(tmp_path, ann_file="list.txt", data_prefix="images")
    assert names(dataset, tmp_path) == ["images/no_suffix", "other/b.jpg", "images/a.jpg"]
    assert dataset[0]["img"].shape == (3, 20, 16)


def test_coco_file_gives_its_images(tmp_path):
    folder(tmp_path / "images", 3)
    images = [{"id": 5, "file_name": "02.png"}, {"id": 1, "file_name": "00.png"}]
    (tmp_path / "captions.json").write_text(json.dumps({"images": images}))
    dataset = build(tmp_path / "images", ann_file="../captions.json")
    assert greens(dataset) == [2, 0]  # iterates, hence raises IndexError at its end


def test_names_that_are_no_unicode(tmp_path):
    save(tmp_path / "a.jpg")
    os.rename(tmp_path / "a.jpg", os.fsencode(tmp_path) + b"/\xff.jpg")
    assert build(tmp_path)[0]["img"].shape == (3, 20, 16)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"data_prefix": "none"}, FileNotFoundError, "must be a folder .*none' is missing"),
        ({"data_prefix": "n.txt"}, FileNotFoundError, "must be a folder .*n.txt' is a file"),
        ({"data_prefix": "text"}, ValueError, r"\(.jpg, .jpeg, .png, .webp, .bmp\), but got 2 oth"),
        ({"ann_file": "none.txt"}, FileNotFoundError, "ann_file must be a file.*none.txt'"),
        ({"ann_file": "n.txt"}, FileNotFoundError, r"n.txt: .* 2 of 3 do not.*b.jpg', .*c.jpg'\]"),
        ({"ann_file": "empty.txt"}, ValueError, "empty.txt: must name at least one image"),
        ({"ann_file": "empty.json"}, ValueError, "empty.json: must name at least one image"),
        ({"ann_file": "no.json"}, ValueError, "no.json: must hold the list.*'images'"),
        ({"ann_file": "00.png"}, ValueError, "ann_file must end in .txt .* or .json"),
        ({"max_bad_share": 1.5}, ValueError, r"max_bad_share must .* in \[0, 1\], but got 1.5"),
        ({"max_bad_share": -0.1}, ValueError, r"max_bad_share must .* in \[0, 1\], but got -0.1"),
    ],
)
def test_sources_that_are_no_images(tmp_path, options, error, message):
    folder(tmp_path, 1)
    (tmp_path / "text").mkdir()
    for name in ("text/a", "text/b.txt", "text/.jpg", "empty.txt"):
        (tmp_path / name).write_text("\n")
    (tmp_path / "n.txt").write_text("b.jpg\n00.png\nc.jpg\n")
    (tmp_path / "empty.json").write_text('{"images": []}')
    (tmp_path / "no.json").write_text('{"annotations": []}')
    with pytest.raises(error, match=message):
        build(tmp_path, **options)


# Items


def test_item_without_and_with_an_epoch(tmp_path):
    dataset = build(folder(tmp_path, 5))
    item = dataset[3]
    assert set(item) == {"img_path", "img", "sample_idx"}
    assert item["img_path"] == str(tmp_path / "03.png")
    assert (
        item["img"].tolist()
        == torch.stack([torch.arange(16).expand(20, 16), *torch.full((2, 20, 16), 3)]).tolist()
    )
    dataset.set_epoch(4, seed=9)
    assert dataset[3]["crop_seed"] == (9, 4, 3)
    assert dataset[np.int64(-1)]["crop_seed"] == (9, 4, 4)
    dataset.set_epoch(0, 0)
    assert dataset[3]["crop_seed"] == (0, 0, 3)
    with pytest.raises(ValueError, match="epoch and seed must be >= 0, but got 1 and -2"):
        dataset.set_epoch(1, -2)
    with pytest.raises(IndexError):
        dataset[5]


def test_pipeline_is_built_from_dicts_and_callables(tmp_path):
    dataset = build(folder(tmp_path, 2), pipeline=[CROP, lambda r: r["inputs"][0].shape])
    assert dataset[1] == (2, 3, 8, 8)


def test_paths_take_no_more_memory_than_their_bytes(tmp_path):
    dataset = build(folder(tmp_path, 6))
    assert dataset.data_bytes.tobytes() == b"00.png01.png02.png03.png04.png05.png"
    assert dataset.data_address.tolist() == [6, 12, 18, 24, 30, 36]
    assert dataset.data_list == []


def crops(loader):
    return [batch["inputs"][0] for batch in loader]


def test_crops_depend_on_seed_epoch_and_index_and_not_on_workers(tmp_path):
    dataset = build(folder(tmp_path, 6), pipeline=[CROP])
    alone = DataLoader(dataset, 2)
    workers = DataLoader(dataset, 2, num_workers=2, persistent_workers=True)
    by_seed = {}
    for epoch, seed in ((0, 1), (1, 1), (0, 2), (0, 1)):
        dataset.set_epoch(epoch, seed)  # must reach workers that run since the first round
        got = by_seed.setdefault((epoch, seed), crops(alone))
        assert all(torch.equal(a, b) for a, b in zip(got, crops(workers), strict=True))
    firsts = [got[0] for got in by_seed.values()]
    assert len(firsts) == 3
    assert not any(torch.equal(firsts[i], firsts[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    # Two images of the same content and two epochs share no crop: index and epoch both count.
    assert not torch.equal(firsts[0][0, :, 0], firsts[0][1, :, 0])


def test_subset_has_its_own_state(tmp_path, warnings):
    dataset = build(folder(tmp_path, 8, bad=[6]), max_bad_share=0.0)
    subset = dataset.get_subset([1, 2, 3, 6])
    assert greens([subset[0], subset[2]]) == [1, 3]
    with pytest.raises(RuntimeError, match=r"but 1 of 4 \(25.0%\) are"):
        subset[3]
    subset.set_epoch(3, 3)
    assert "crop_seed" not in dataset[0]
    dataset.get_subset_(5)
    assert greens(dataset) == [0, 1, 2, 3, 4]


# Bad images


def read_list(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_bad_image_is_replaced_listed_and_warned_of_once(tmp_path, warnings):
    dataset = build(folder(tmp_path / "images", 10, bad=[4]))
    bad_list = tmp_path / "work_dir" / "bad_images.txt"
    dataset.record_bad_images(bad_list)
    for epoch in range(3):
        dataset.set_epoch(epoch, 0)
        items = list(dataset)
        assert greens(items)[:4] == [0, 1, 2, 3]
        assert greens(items)[4] != 4
        assert items[4]["sample_idx"] == greens(items)[4]
        assert items[4]["crop_seed"] == (0, epoch, 4)
    (path, reason), *others = read_list(bad_list)
    assert others == []
    assert path == str(tmp_path / "images" / "04.png")
    assert reason.startswith("it cannot be decoded (")
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{path}: it cannot be decoded (")


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


def test_replacement_without_an_epoch_is_random(tmp_path, warnings):
    dataset = build(folder(tmp_path, 20, bad=[0]))
    assert len({dataset[0]["sample_idx"] for _ in range(30)}) > 5


def test_known_bad_images_are_not_read_again(tmp_path, warnings, monkeypatch):
    from mmssprl.datasets import unlabeled_images

    dataset = build(folder(tmp_path, 10, bad=[4]))
    dataset[4]
    read, seen = unlabeled_images.read_image, []
    monkeypatch.setattr(
        unlabeled_images, "read_image", lambda path: seen.append(path) or read(path)
    )
    for _ in range(5):
        dataset[4]
    assert len(seen) == 5
    assert str(tmp_path / "04.png") not in seen


@pytest.mark.parametrize(
    ("num_images", "num_bad", "share", "stops"),
    [
        (100, 1, 0.01, False),
        (100, 2, 0.01, True),
        (200, 2, 0.01, False),
        (10, 1, 0.01, False),  # one is tolerated, however few images
        (10, 2, 0.01, True),
        (10, 1, 0.0, True),  # but not if none may be bad
        (4, 2, 0.5, False),
        (4, 3, 0.5, True),
        (3, 3, 1.0, True),  # nothing is left to replace them
        (1, 1, 0.5, True),
    ],
)
def test_share_of_bad_images_at_which_training_stops(warnings, num_images, num_bad, share, stops):
    bad_images = BadImages(num_images, share)
    for index in range(num_bad - 1):
        bad_images.add(index, f"{index}.jpg", "broken")
        bad_images.add(index, f"{index}.jpg", "broken")  # counts once
    if stops:
        message = rf"max_bad_share={share}: .* but {num_bad} of {num_images} .* raise max_bad_share"
        with pytest.raises(RuntimeError, match=message):
            bad_images.add(num_bad - 1, "last.jpg", "broken")
    else:
        bad_images.add(num_bad - 1, "last.jpg", "broken")
    assert len(warnings) == num_bad


def test_error_names_the_list(tmp_path, warnings):
    dataset = build(folder(tmp_path, 20, bad=[1, 2, 3]), max_bad_share=0.1)
    dataset.record_bad_images(tmp_path / "bad.txt")
    with pytest.raises(RuntimeError, match=r"3 of 20 \(15.0%\) are; they are listed in .*bad.txt"):
        list(dataset)
    assert len(read_list(tmp_path / "bad.txt")) == 3


def test_resumed_run_lists_nothing_twice_and_forgets_what_was_repaired(tmp_path, warnings):
    root, bad_list = folder(tmp_path / "images", 30, bad=[1, 2, 3]), tmp_path / "bad.txt"
    dataset = build(root, max_bad_share=0.1)
    dataset.record_bad_images(bad_list)
    list(dataset)
    save(root / "02.png", 2)  # repaired, and another one breaks
    (root / "09.png").write_bytes(b"")
    (root / "03.png").unlink()
    with bad_list.open("a") as file:
        file.write("/other/data/set.jpg\tbroken\n")
    resumed = build(root, max_bad_share=0.1)
    resumed.record_bad_images(bad_list)
    assert greens(resumed)[2] == 2
    listed = [os.path.basename(path) for path, _ in read_list(bad_list)]
    assert listed == ["01.png", "02.png", "03.png", "set.jpg", "09.png"]
    assert len(warnings) == 4
    # Only 01 and 09 still count: two more and the next run stops, and the one after at its start.
    for name in ("10.png", "11.png"):
        (root / name).write_bytes(b"")
    resumed = build(root, max_bad_share=0.1)
    resumed.record_bad_images(bad_list)
    with pytest.raises(RuntimeError, match="but 3 of 29"):
        list(resumed)
    with pytest.raises(RuntimeError, match="but 3 of 29"):
        build(root, max_bad_share=0.1).record_bad_images(bad_list)


def test_two_workers_list_a_bad_image_once(tmp_path):
    dataset = build(folder(tmp_path / "images", 24, bad=[2, 5]), max_bad_share=0.5)
    bad_list = tmp_path / "bad.txt"
    dataset.record_bad_images(bad_list)
    # Both workers meet both bad images: every index is drawn by each in turn.
    sampler = [i for i in range(24) for _ in range(2)]
    for epoch in range(2):
        dataset.set_epoch(epoch, 0)
        loader = DataLoader(dataset, 1, sampler=sampler, num_workers=2, collate_fn=pseudo_collate)
        assert len(list(loader)) == 48
    assert sorted(os.path.basename(path) for path, _ in read_list(bad_list)) == ["02.png", "05.png"]


def test_workers_share_what_is_bad_and_their_error_comes_out(tmp_path):
    dataset = build(folder(tmp_path, 60, bad=[0, 1, 2, 3]), max_bad_share=0.05)
    loader = iter(DataLoader(dataset, 1, num_workers=2, collate_fn=pseudo_collate))
    errors = []
    for _ in range(60):  # to the end: workers that are left with work take 10 s to stop
        try:
            next(loader)
        except RuntimeError as error:
            errors.append(str(error))
    # Each worker alone meets 2 bad images; together they exceed 3 of 60.
    assert len(errors) in (1, 2)
    assert "max_bad_share=0.05: at most this share" in errors[0]
    assert "but 4 of 60 (6.7%) are" in errors[0]


def run_rank(rank, root, barrier, errors):
    """Read the images 0 to 19, and those from 20 on that are this rank's."""
    dataset = build(root / "images", max_bad_share=12.5 / 30)
    dataset.record_bad_images(root / "bad.txt")
    barrier.wait(timeout=60)
    try:
        for index in (*range(20), *range(20 + rank, 30, 2)):
            dataset[index]
    except RuntimeError as error:
        errors.put(str(error))
    barrier.wait(timeout=60)


def test_two_processes_keep_one_list_and_count_together(tmp_path):
    # 10 bad images that both read, 2 more of rank 0 and 1 of rank 1: neither sees 13 alone.
    folder(tmp_path / "images", 30, bad=[*range(0, 20, 2), 20, 22, 21])
    context = torch.multiprocessing.get_context("fork")
    barrier, errors = context.Barrier(2), context.Queue()
    ranks = [
        context.Process(target=run_rank, args=(rank, tmp_path, barrier, errors))
        for rank in range(2)
    ]
    for rank in ranks:
        rank.start()
    message = errors.get(timeout=60)
    for rank in ranks:
        rank.join(timeout=60)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    assert "but 13 of 30 (43.3%) are" in message
    listed = [os.path.basename(path) for path, _ in read_list(tmp_path / "bad.txt")]
    assert len(listed) == len(set(listed)) == 13


def test_pickled_data_set_reads_the_same_images(tmp_path):
    dataset = build(folder(tmp_path, 4), pipeline=[CROP])
    dataset.set_epoch(1, 2)
    copy = pickle.loads(pickle.dumps(dataset))
    assert isinstance(copy, UnlabeledImages)
    assert torch.equal(copy[3]["inputs"][0], dataset[3]["inputs"][0])
