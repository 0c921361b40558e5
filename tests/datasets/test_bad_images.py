import os
from contextlib import nullcontext

import pytest
import torch
from helpers.datasets.image_folders import build, folder, greens, read_list, save

from mmssprl.datasets import unlabeled_images
from mmssprl.datasets.bad_images import BadImages


def test_bad_image_is_replaced_listed_read_and_warned_of_once(tmp_path, warnings, monkeypatch):
    dataset = build(folder(tmp_path / "images", 10, bad=[4]))
    read, seen = unlabeled_images.read_image, []
    monkeypatch.setattr(
        unlabeled_images, "read_image", lambda path: seen.append(path) or read(path)
    )
    bad_list = tmp_path / "work_dir" / "bad_images.txt"
    dataset.record_bad_images(bad_list)
    assert not bad_list.exists()
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
    assert len(warnings) == seen.count(path) == 1
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


@pytest.mark.parametrize(
    ("num_images", "num_bad", "share", "stops"),
    [
        (100, 1, 0.01, False),
        (100, 2, 0.01, True),
        (200, 2, 0.01, False),
        (10, 1, 0.01, False),  # one is tolerated, however few images
        (10, 1, 0.0, True),  # but not if none may be bad
        (3, 3, 1.0, True),  # nothing is left to replace them
        (1, 1, 0.5, True),
    ],
)
def test_share_of_bad_images_at_which_training_stops(warnings, num_images, num_bad, share, stops):
    bad_images = BadImages(num_images, share)
    for index in range(num_bad - 1):
        bad_images.add(index, f"{index}.jpg", "broken")
        bad_images.add(index, f"{index}.jpg", "broken")  # counts once
    message = rf"max_bad_share={share}: .* but {num_bad} of {num_images} .* raise max_bad_share"
    with pytest.raises(RuntimeError, match=message) if stops else nullcontext():
        bad_images.add(num_bad - 1, "last.jpg", "broken")
    assert len(warnings) == num_bad


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


def run_rank(rank, root, barrier, errors):
    """Read the images 0 to 19, and those from 20 on that are this rank's."""
    dataset = build(root / "images", max_bad_share=6.5 / 100)
    dataset.record_bad_images(root / "bad.txt")
    dataset.set_epoch(0, 0)  # fixes what replaces a bad image: here never another bad one
    barrier.wait(timeout=60)
    try:
        for index in (*range(20), *range(20 + rank, 30, 2)):
            dataset[index]
    except RuntimeError as error:
        errors.put(str(error))
    barrier.wait(timeout=60)


def test_two_processes_keep_one_list_and_count_together(tmp_path):
    # 4 bad images that both read, 2 more of rank 0 and 1 of rank 1: neither sees 7 alone.
    folder(tmp_path / "images", 100, bad=[0, 2, 4, 6, 20, 22, 21])
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
    assert "but 7 of 100 (7.0%) are" in message
    listed = [os.path.basename(path) for path, _ in read_list(tmp_path / "bad.txt")]
    assert len(listed) == len(set(listed)) == 7
