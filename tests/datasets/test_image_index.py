import re

import pytest

from mmssprl.datasets.image_index import search_images
from mmssprl.datasets.subset import choose_subset


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return str(root)


def test_names_are_sorted_as_whole_paths(tmp_path):
    # "-" comes before "/" and "/" before "0": the order of the folders alone would be another.
    wanted = ["B.JPEG", "a-b/1.jpg", "a/2.bmp", "a/b/3.WebP", "a/c.jpg", "a0.jpg", "b/ä ö.Png"]
    others = ["a/notes.txt", ".b/4.jpg", "a/._5.jpg", "a/6.SVG", "7.jpg.part", "README"]
    index = search_images(touch(tmp_path, *reversed(wanted), *others))
    skipped = {".txt": 1, ".svg": 1, ".part": 1, "without suffix": 1}
    assert index == (wanted, [], skipped)


def test_raw_files_of_images_are_not_left_out(tmp_path):
    index = search_images(touch(tmp_path, "a/1.JPG", "a/1.RAF", "a/2.RAF", "b/1.RAF", "a/1.txt"))
    assert index.skipped == {".raf": 2, ".txt": 1}


def test_thumbnails_and_deleted_files_of_systems_are_skipped(tmp_path):
    folders = [
        "a/@eaDir/1.jpg",
        "#recycle",
        "$RECYCLE.BIN/S-1-5",
        "__MACOSX/a",
        "@Recycle",
        "lost+found",
    ]
    hidden = [f"{folder}/thumb.jpg" for folder in folders]
    root = touch(tmp_path / "photos", "a/1.jpg", "a@eaDir/2.jpg", *hidden)
    assert search_images(root) == (["a/1.jpg", "a@eaDir/2.jpg"], [], {})


def test_links_are_searched_once(tmp_path):
    touch(tmp_path / "away", "1.jpg")
    root = tmp_path / "root"
    folder = touch(root, "z/2.jpg")
    (root / "b").symlink_to(tmp_path / "away")
    (root / "c").symlink_to(tmp_path / "away")
    (root / "d.jpg").symlink_to(root / "z" / "2.jpg")
    (root / "round").symlink_to(root / "round")
    (root / "z" / "up").symlink_to(root)
    assert search_images(folder).names == ["b/1.jpg", "d.jpg", "z/2.jpg"]


# By hand: `for i in $(seq 10); do printf 0:$i | sha256sum; done | sort` begins with the hashes of
# 7 (2bef8ffb), 4 (48f03bc9), 9 (502172c3), 10 (6ac52aeb), 3 (76d3c2ee); with 1:$i of
# 7 (3d5f0fd8), 4 (492ab00b), 8 (546201ca).
@pytest.mark.parametrize(
    ("fraction", "seed", "expected"),
    [
        (0.001, 0, [7]),  # at least one
        (0.3, 0, [4, 7, 9]),
        (0.5, 0, [3, 4, 7, 9, 10]),
        (0.3, 1, [4, 7, 8]),
        (1, 0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_takes_the_ids_with_the_lowest_hash(fraction, seed, expected):
    assert choose_subset(range(1, 11), fraction, seed) == expected
    assert choose_subset([3, 9, 1, 10, 2, 8, 4, 7, 6, 5], fraction, seed) == expected


@pytest.mark.parametrize("fraction", [0, -0.1, 1.01, 10, float("nan")])
def test_wrong_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match=rf"fraction .* got {re.escape(str(fraction))} of 2"):
        choose_subset([1, 2], fraction)
    with pytest.raises(ValueError, match=r"at least one image, but got 0.1 of 0"):
        choose_subset([], 0.1)
