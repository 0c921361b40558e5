import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from prepare_folders import (
    ADDED,
    OWN,
    by_name,
    cut_off,
    run_remedy,
    shell,
    statuses,
    write_jpeg,
    write_png,
    write_sbd,
    write_voc12,
)

from mmssprl.preparation import sbd, voc12aug
from mmssprl.preparation.label_images import write_png_labels
from mmssprl.preparation.voc12aug import check, convert, ready

LIST_FILE = "ImageSets/Segmentation/train_aug.txt"
SBD_PLACES = [
    "benchmark_RELEASE/dataset",
    "VOCdevkit/benchmark_RELEASE/dataset",
    "VOCdevkit/VOCaug/benchmark_RELEASE/dataset",
    "VOCdevkit/VOCaug/dataset",
]


@pytest.fixture
def voc(tmp_path):
    write_sbd(tmp_path / "benchmark_RELEASE" / "dataset")
    return write_voc12(tmp_path / "VOCdevkit" / "VOC2012")


def made(voc):
    return {
        path.name: np.asarray(Image.open(path)).tolist()
        for path in sorted((voc / "SegmentationClassAug").iterdir())
    }


EXPECTED = {"a.png": OWN["a"], "b.png": OWN["b"], "c.png": ADDED["c"], "d.png": ADDED["d"]}


class TestConvert:
    def test_vocs_own_labels_win_and_val_stays_out(self, voc, tmp_path):
        assert convert(tmp_path, any_size=True) == 4
        assert made(voc) == EXPECTED
        assert (voc / LIST_FILE).read_text() == "a\nb\nc\nd\n"

    @pytest.mark.parametrize("place", SBD_PLACES)
    @pytest.mark.parametrize("given", [".", "VOCdevkit", "VOCdevkit/VOC2012"])
    def test_sbd_is_found(self, tmp_path, place, given):
        voc = write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
        write_sbd(tmp_path / place)
        assert convert(tmp_path / given, any_size=True) == 4
        assert made(voc) == EXPECTED

    def test_goes_on_where_it_was_cut_off(self, voc, tmp_path, monkeypatch):
        def write(labels, path):
            if path.name == "c.png":
                raise KeyboardInterrupt
            write_png_labels(labels, path)

        with monkeypatch.context() as patch:
            patch.setattr(sbd, "write_png_labels", write)
            with pytest.raises(KeyboardInterrupt):
                convert(tmp_path, any_size=True)
        assert sorted(made(voc)) == ["a.png", "b.png"]
        assert not (voc / LIST_FILE).exists()
        write_png(voc / "SegmentationClassAug" / "b.png", [[9, 9, 9], [9, 9, 9]])
        assert convert(tmp_path, any_size=True) == 2
        assert made(voc) == {**EXPECTED, "b.png": [[9, 9, 9], [9, 9, 9]]}  # kept as it was
        assert (voc / LIST_FILE).read_text() == "a\nb\nc\nd\n"
        assert convert(tmp_path, any_size=True) == 0

    def test_another_number_of_images(self, voc, tmp_path, monkeypatch):
        with pytest.raises(ValueError, match=r"must have 10,582 images, but .* give 4; unpack"):
            convert(tmp_path)
        assert not (voc / "SegmentationClassAug").exists()
        monkeypatch.setattr(sbd, "NUM_TRAIN_AUG", 4)
        assert convert(tmp_path) == 4

    def test_a_list_of_others_is_not_replaced(self, voc, tmp_path):
        (voc / LIST_FILE).write_text("a\nb\n")
        with pytest.raises(FileExistsError, match=r"train_aug.txt must be absent or name the 4 im"):
            convert(tmp_path, any_size=True)
        assert (voc / LIST_FILE).read_text() == "a\nb\n"
        assert not (voc / "SegmentationClassAug").exists()

    def test_labels_must_be_as_large_as_their_image(self, voc, tmp_path):
        write_jpeg(voc / "JPEGImages" / "c.jpg", 3, 2)
        with pytest.raises(
            ValueError, match=r"c\.mat: must be as large as .*c\.jpg, 3 x 2 \(height x width\), bu"
        ):
            convert(tmp_path, any_size=True)
        assert sorted(made(voc)) == ["a.png", "b.png"]

    @pytest.mark.parametrize(
        ("path", "error", "message"),
        [
            ("{voc}/JPEGImages/d.jpg", ValueError, r"d\.jpg: must be an image, but cannot be op"),
            ("{sbd}/cls/c.mat", FileNotFoundError, r"SBD's lists .* there is no .*c\.mat; unpack"),
            (
                "{voc}/SegmentationClass/a.png",
                FileNotFoundError,
                r"VOC's lists .* there is no .*a\.png; unpack",
            ),
            ("{sbd}/train.txt", FileNotFoundError, r"dataset/train\.txt must be a list of images"),
            (
                "{voc}/ImageSets/Segmentation/val.txt",
                FileNotFoundError,
                r"Segmentation/val\.txt must be a list of images",
            ),
            ("{sbd}/cls", FileNotFoundError, r"SBD must be in .* --check-only` prints"),
        ],
    )
    def test_what_is_missing_is_named(self, voc, tmp_path, path, error, message):
        file = path.format(voc=voc, sbd=tmp_path / "benchmark_RELEASE/dataset")
        os.rename(file, tmp_path / "elsewhere")
        with pytest.raises(error, match=message):
            convert(tmp_path, any_size=True)
        assert not (voc / LIST_FILE).exists()

    @pytest.mark.parametrize("sub", [".", "VOCdevkit", "VOCdevkit/VOC2012"])
    def test_from_within_the_folder(self, voc, tmp_path, sub, monkeypatch):
        monkeypatch.chdir(tmp_path / sub)
        assert convert(Path("."), any_size=True) == 4
        assert made(voc) == EXPECTED


class TestCheck:
    def test_before_and_after_the_conversion(self, voc, tmp_path):
        found = check(tmp_path, any_size=True)
        assert ready(found)
        assert {item.name for item in found if item.status != "OK"} == set(
            (LIST_FILE, "SegmentationClassAug/")
        )
        assert by_name(found)["SBD cls/"].detail == "all 4 files are there"
        assert by_name(found)["JPEGImages/"].detail == "all 5 files are there"
        convert(tmp_path, any_size=True)
        found = check(tmp_path, any_size=True)
        assert statuses(found) == {"OK"}
        assert not ready(found)
        assert by_name(found)["SegmentationClassAug: sample"].detail == (
            "4 of 4 have labels that exist, in their image's size"
        )

    def test_sbd_is_not_needed_any_more_afterwards(self, voc, tmp_path):
        convert(tmp_path, any_size=True)
        (tmp_path / "benchmark_RELEASE").rename(tmp_path / "elsewhere")
        found = check(tmp_path, any_size=True)
        assert statuses(found) == {"OK"}
        assert by_name(found)["JPEGImages/"].detail == "all 5 files are there"
        (voc / "JPEGImages" / "d.jpg").unlink()
        assert by_name(check(tmp_path, any_size=True))["JPEGImages/"].status == "MISSING"

    def test_the_official_numbers_are_wanted_unless_any_size(self, voc, tmp_path, monkeypatch):
        convert(tmp_path, any_size=True)
        found = check(tmp_path)
        assert not ready(found)
        assert [item.detail for item in found if item.status != "OK"] == [
            f"not the official set: {count} of {official} images"
            for count, official in (
                (2, "1,464"),
                (1, "1,449"),
                (2, "8,498"),
                (2, "2,857"),
                (4, "10,582"),
            )
        ]
        monkeypatch.setattr(voc12aug, "SPLITS", {"train": 2, "val": 1})
        monkeypatch.setattr(voc12aug, "SBD_SPLITS", {"train": 2, "val": 2})
        monkeypatch.setattr(voc12aug, "NUM_TRAIN_AUG", 4)
        assert statuses(check(tmp_path)) == {"OK"}

    @pytest.mark.parametrize(
        ("spoil", "name", "status", "detail"),
        [
            ("colours", "SegmentationClass: sample", "WRONG", "a.png: must be an image of class"),
            ("size", "SegmentationClass: sample", "WRONG", "v.png: must be as large as"),
            ("no label", "SegmentationClass/", "MISSING", "1 of 3 files are not there, first v"),
            ("no mat", "SBD cls/", "MISSING", "1 of 4 files are not there, first d.mat"),
            ("no image", "JPEGImages/", "MISSING", "1 of 5 files are not there, first d.jpg"),
            ("damaged image", "JPEGImages: sample", "WRONG", "1 of 5 sampled images are bad"),
        ],
    )
    def test_each_fault_is_named_and_stops_the_conversion(
        self, voc, tmp_path, spoil, name, status, detail
    ):
        if spoil == "colours":
            Image.new("RGB", (3, 2)).save(voc / "SegmentationClass" / "a.png")
        elif spoil == "size":
            write_png(voc / "SegmentationClass" / "v.png", np.zeros((3, 2)))
        elif spoil == "no label":
            (voc / "SegmentationClass" / "v.png").unlink()
        elif spoil == "no mat":
            (tmp_path / "benchmark_RELEASE" / "dataset" / "cls" / "d.mat").unlink()
        elif spoil == "no image":
            (voc / "JPEGImages" / "d.jpg").unlink()
        else:
            cut_off(voc / "JPEGImages" / "d.jpg")
        found = check(tmp_path, any_size=True)
        assert not ready(found)
        found = by_name(found)
        assert found[name].status == status
        assert detail in found[name].detail
        assert found[name].remedy

    def test_a_converted_image_that_is_lost_is_made_again(self, voc, tmp_path):
        convert(tmp_path, any_size=True)
        (voc / "SegmentationClassAug" / "c.png").unlink()
        found = check(tmp_path, any_size=True)
        assert ready(found)
        assert by_name(found)["SegmentationClassAug/"].remedy == (
            f"python -m mmssprl prepare voc12aug {tmp_path} --any-size"
        )
        assert convert(tmp_path, any_size=True) == 1
        assert made(voc) == EXPECTED

    @pytest.mark.parametrize(
        ("names", "detail"),
        [
            ("a\nv\n", "1 images are in val.txt too, first v"),
            ("a\na\n", "some images are named tw"),
        ],
    )
    def test_a_list_that_is_not_ours(self, voc, tmp_path, names, detail):
        convert(tmp_path, any_size=True)
        (voc / LIST_FILE).write_text(names)
        found = check(tmp_path, any_size=True)
        assert not ready(found)
        assert by_name(found)[LIST_FILE].status == "WRONG"
        assert by_name(found)[LIST_FILE].detail.startswith(detail)
        assert f"{voc}/{LIST_FILE}" in by_name(found)[LIST_FILE].remedy

    def test_damaged_labels_are_not_replaced(self, voc, tmp_path):
        convert(tmp_path, any_size=True)
        write_png(voc / "SegmentationClassAug" / "c.png", [[0, 99, 0], [0, 0, 0]])
        found = check(tmp_path, any_size=True)
        assert not ready(found)
        sample = by_name(found)["SegmentationClassAug: sample"]
        assert sample.status == "WRONG"
        assert r"labels must be 0 to 20 or 255, but there are [99]" in sample.detail
        assert sample.remedy.startswith("# move damaged files away first")

    def test_the_printed_commands_start_from_nothing(self, voc, tmp_path):
        archives = tmp_path / "archives"
        archives.mkdir()
        shell(f"tar -cf {archives}/VOCtrainval_11-May-2012.tar -C {tmp_path} VOCdevkit")
        shell(f"tar -czf {archives}/benchmark.tgz -C {tmp_path} benchmark_RELEASE")
        new = tmp_path / "new"
        found = check(new, any_size=True)
        assert statuses(found) == {"MISSING"}
        for remedy in dict.fromkeys(item.remedy for item in found[:-2]):
            run_remedy(remedy, archives)
        assert ready(check(new, any_size=True))
        convert(new, any_size=True)
        assert made(new / "VOCdevkit" / "VOC2012") == EXPECTED
