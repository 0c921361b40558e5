import os
import pickle
import shutil

import lmdb
import numpy as np
import pytest
import torch
from image_folders import CROP, build, folder, greens, names, read_list, save
from mmengine.dataset import pseudo_collate
from torch.utils.data import DataLoader, Dataset

from mmssprl.datasets import packed_images
from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.image_reading import ImageReadError
from mmssprl.datasets.packed_images import PackedImages, is_packed
from mmssprl.datasets.packing import pack


@pytest.fixture(autouse=True)
def close_files():
    yield
    for path in list(packed_images._environments):
        packed_images._close(path)


def pack_folder(root, out):
    pack(str(root), build(root).names, str(out), log=lambda line: None)
    return out


def mixed_folder(root):
    """Images of several formats and folders, one with a name that is no Unicode, one empty."""
    for i, name in enumerate(["b/1.jpg", "a-b.PNG", "a/2.webp", "ä ö.bmp", "a/deep/3.jpeg"]):
        save(root / name, 40 * i, (20 + i, 30))
    os.rename(root / "a" / "2.webp", os.fsencode(root) + b"/a/\xff.webp")
    (root / "c.jpg").write_bytes(b"")
    (root / "d.jpg").write_bytes((root / "b" / "1.jpg").read_bytes()[:300])
    return root


# Samples


def test_samples_are_those_of_the_folder(tmp_path, warnings):
    root = mixed_folder(tmp_path / "images")
    out = pack_folder(root, tmp_path / "images.lmdb")
    from_folder = build(root, pipeline=[CROP], max_bad_share=1.0)
    from_pack = build(out, pipeline=[CROP], max_bad_share=1.0)
    assert names(from_pack, out) == names(from_folder, root)
    assert len(from_pack) == 7
    for epoch, workers in ((0, 0), (3, 2)):
        both = []
        for dataset in (from_folder, from_pack):
            dataset.set_epoch(epoch, seed=5)
            loader = DataLoader(dataset, 1, num_workers=workers, collate_fn=pseudo_collate)
            both.append([batch["inputs"][0][0] for batch in loader])
        assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))
        assert len({crop.numpy().tobytes() for crop in both[0]}) == 7


def test_items_are_those_of_the_folder_but_for_the_root(tmp_path):
    root = folder(tmp_path / "images", 3)
    out = pack_folder(root, tmp_path / "images.lmdb")
    item, packed = build(root)[1], build(out)[1]
    assert packed["img_path"] == f"{out}/01.png"
    assert torch.equal(packed["img"], item["img"])
    assert packed["img"].stride() == item["img"].stride()
    assert packed["sample_idx"] == item["sample_idx"] == 1
    assert packed.keys() == item.keys()


def test_files_are_stored_unchanged(tmp_path):
    root = mixed_folder(tmp_path / "images")
    dataset = build(root)
    packed = PackedImages(str(pack_folder(root, tmp_path / "images.lmdb")))
    assert list(packed.names()) == list(dataset.names)
    for index in range(len(dataset)):
        with open(dataset.get_data_info(index)["img_path"], "rb") as file:
            assert packed.read(index, "").tobytes() == file.read()


def test_load_image_tells_what_is_wrong(tmp_path):
    root = mixed_folder(tmp_path / "images")
    dataset = build(pack_folder(root, tmp_path / "images.lmdb"))
    assert dataset.load_image(3).shape == (3, 20, 30)
    assert torch.equal(dataset.load_image(-1), build(root).load_image(-1))
    with pytest.raises(ImageReadError, match=r"images.lmdb/c.jpg: .* but it is empty;"):
        dataset.load_image(4)
    with pytest.raises(ImageReadError, match=r"images.lmdb/d.jpg: .* it cannot be decoded \("):
        dataset.load_image(5)


def test_bad_images_are_listed_below_the_packed_file_and_known_to_a_resumed_run(tmp_path, warnings):
    out = pack_folder(folder(tmp_path / "images", 30, bad=[4, 7]), tmp_path / "images.lmdb")
    dataset = build(out, max_bad_share=0.1)
    dataset.record_bad_images(tmp_path / "bad.txt")
    list(dataset)
    listed = [path for path, _ in read_list(tmp_path / "bad.txt")]
    assert listed == [f"{out}/04.png", f"{out}/07.png"]
    with pytest.raises(RuntimeError, match="but 2 of 30"):
        build(out, max_bad_share=0.05).record_bad_images(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_text(f"{out}/08.png\tit was repaired\n")
    build(out, max_bad_share=0.0).record_bad_images(tmp_path / "bad.txt")


def test_subset_reads_its_own_images(tmp_path):
    dataset = build(pack_folder(folder(tmp_path / "images", 8), tmp_path / "images.lmdb"))
    subset = dataset.get_subset([6, 1, -1, 1]).get_subset([0, 2, 3])
    assert greens(subset) == [6, 7, 1]
    assert [os.path.basename(subset.get_data_info(i)["img_path"]) for i in range(3)] == [
        "06.png",
        "07.png",
        "01.png",
    ]
    assert greens(dataset.get_subset(-2)) == [6, 7]
    dataset.get_subset_(3)
    assert greens(dataset) == [0, 1, 2]


# Processes


class Owners(Dataset):
    """Reads an image and returns it with the process and the one that opened the file."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        image = self.dataset.load_image(index)
        ((owner, _),) = packed_images._environments.values()
        return int(image[1, 0, 0]), owner, os.getpid()


def test_each_process_opens_the_file_itself_when_it_reads(tmp_path):
    dataset = build(pack_folder(folder(tmp_path / "images", 6), tmp_path / "images.lmdb"))
    assert packed_images._environments == {}  # nothing is open that a fork could inherit
    for read_before in (False, True):
        if read_before:
            dataset.load_image(0)
        loader = DataLoader(Owners(dataset), 1, num_workers=2, collate_fn=pseudo_collate)
        rows = [[int(value[0]) for value in batch] for batch in loader]
        assert [row[0] for row in rows] == list(range(6))
        assert all(owner == process != os.getpid() for _, owner, process in rows)
        assert len({process for *_, process in rows}) == 2
    assert dataset.load_image(5)[1, 0, 0] == 5  # the workers closed their side only


def test_two_data_sets_of_a_process_share_the_file_under_two_names(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 4), tmp_path / "images.lmdb")
    (tmp_path / "link.lmdb").symlink_to(out)
    first = build(out)
    assert greens([first[0]]) == [0]
    second = build(tmp_path / "link.lmdb")
    copy = pickle.loads(pickle.dumps(second))
    assert greens([first[1], second[2], copy[3]]) == [1, 2, 3]
    assert len(packed_images._environments) == 1


def test_reading_leaves_no_lock_file(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 2), tmp_path / "images.lmdb")
    out.chmod(0o444)
    build(out)[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "images.lmdb"]


# Files that cannot be used


@pytest.mark.parametrize(
    "options", [{"ann_file": "list.txt"}, {"data_prefix": "train"}, {"ann_file": "/a/list.json"}]
)
def test_a_packed_file_takes_no_list_and_no_folder(tmp_path, options):
    out = pack_folder(folder(tmp_path / "images", 2), tmp_path / "images.lmdb")
    message = r"ann_file and data_prefix must be empty .*images.lmdb; .*--ann-file FILE"
    with pytest.raises(ValueError, match=message):
        build(out, **options)


def test_a_file_that_is_cut_off_is_refused_before_it_kills_a_worker(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 40), tmp_path / "images.lmdb")
    size = out.stat().st_size
    os.truncate(out, size - 1)
    with pytest.raises(ValueError, match=rf"must have {size:,} bytes, but has .* it is cut off"):
        build(out)


def test_a_file_that_is_not_complete_is_refused(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 5), tmp_path / "images.lmdb")
    with lmdb.open(str(out), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.delete(packed_images.COMPLETE)
        txn.delete(packed_images.image_key(4))
    with pytest.raises(ValueError, match="completely, but holds 4 of 5 images.* it goes on"):
        build(out)


def test_other_files_are_told_apart_by_what_they_hold(tmp_path):
    other = str(tmp_path / "other")
    with lmdb.open(other, subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
    (tmp_path / "text.lmdb").write_text("text" * 20)
    out = pack_folder(folder(tmp_path / "images", 2), tmp_path / "images.lmdb")
    shutil.copy(out, tmp_path / "photos")
    assert greens(build(tmp_path / "photos")) == [0, 1]
    with pytest.raises(ValueError, match="other: must be a file of .* but holds something else"):
        build(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="or data_root a file of .*text.lmdb/' is a file"):
        build(tmp_path / "text.lmdb")
    assert not is_packed(str(tmp_path))
    assert not is_packed(str(tmp_path / "missing"))


def test_another_format_is_named(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 2), tmp_path / "images.lmdb")
    with lmdb.open(str(out), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        header = bytes(txn.get(packed_images.HEADER)).replace(b"images 1", b"images 2")
        txn.put(packed_images.HEADER, header)
    with pytest.raises(
        ValueError, match="format 'mmssprl packed images 1', but holds format .* 2'"
    ):
        build(out)


def test_an_image_that_is_gone_is_a_bad_image(tmp_path, warnings):
    out = pack_folder(folder(tmp_path / "images", 5), tmp_path / "images.lmdb")
    with lmdb.open(str(out), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.delete(packed_images.image_key(2))
    with pytest.raises(ImageReadError, match="02.png: .*images.lmdb does not hold it"):
        build(out).load_image(2)
    assert len(build(out)) == 5
    assert build(out)[2]["sample_idx"] != 2


def test_a_flipped_bit_is_a_bad_image(tmp_path, warnings):
    root = folder(tmp_path / "images", 5)
    out = pack_folder(root, tmp_path / "images.lmdb")
    data = (root / "02.png").read_bytes()
    content = out.read_bytes()
    assert data in content
    out.write_bytes(content.replace(data, data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]))
    with pytest.raises(
        ImageReadError, match="02.png: .* its bytes in .* not those that were packed"
    ):
        build(out).load_image(2)
    assert build(out)[2]["sample_idx"] != 2


def test_names_lie_in_two_arrays(tmp_path):
    out = pack_folder(folder(tmp_path / "images", 3), tmp_path / "images.lmdb")
    dataset = build(out)
    assert dataset.data_bytes.tobytes() == b"00.png01.png02.png"
    assert dataset.data_address.tolist() == [6, 12, 18]
    assert isinstance(dataset.names, ImageNames)
    assert dataset.data_bytes.dtype == np.uint8
