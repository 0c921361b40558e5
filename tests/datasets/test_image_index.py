import os

from mmssprl.datasets.image_index import ImageNames, index_images


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return str(root)


def test_names_are_sorted_as_whole_paths(tmp_path):
    # "-" comes before "/" and "/" before "0": the order of the folders alone would be another.
    wanted = ["B.JPEG", "a-b/1.jpg", "a/2.bmp", "a/b/3.WebP", "a/c.jpg", "a0.jpg", "b/ä ö.Png"]
    others = ["a/notes.txt", ".b/4.jpg", "a/._5.jpg", "a/6.svg", "7.jpg.part"]
    index = index_images(touch(tmp_path, *reversed(wanted), *others))
    assert list(index.names) == wanted
    skipped = {".txt": 1, ".svg": 1, ".part": 1}
    assert (index.tars, index.skipped, index.unlisted) == ([], skipped, [])


def test_links_are_searched_once(tmp_path):
    touch(tmp_path / "away", "1.jpg")
    root = tmp_path / "root"
    folder = touch(root, "z/2.jpg")
    (root / "b").symlink_to(tmp_path / "away")
    (root / "c").symlink_to(tmp_path / "away")
    (root / "d.jpg").symlink_to(root / "z" / "2.jpg")
    (root / "round").symlink_to(root / "round")
    (root / "z" / "up").symlink_to(root)
    assert list(index_images(folder).names) == ["b/1.jpg", "d.jpg", "z/2.jpg"]


def test_names_are_kept_as_bytes_and_come_back_in_their_order():
    wanted = ["b/ä.jpg", "", "a.png", os.fsdecode(b"\xff.jpg")]
    names = ImageNames.of(wanted)
    assert len(names) == 4
    assert list(names) == [names[i] for i in range(4)] == wanted
    assert names.blob.tobytes() == "b/ä.jpga.png".encode() + b"\xff.jpg"
    assert names.ends.tolist() == [8, 8, 13, 18]
    assert list(ImageNames.of([])) == []
