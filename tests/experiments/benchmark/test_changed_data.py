"""Labels and images that have changed since the first scores of a work dir."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark.start import Benchmark
from mmssprl.experiments.options import BenchmarkOptions

PROTOCOLS = ("linear-coco", "segmentation")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=2, num_val=1, size_px=64, progress=False)


@pytest.fixture
def data(scenes, tmp_path):
    return shutil.copytree(scenes, tmp_path / "scenes")


def plan(data, protocols=PROTOCOLS):
    options = BenchmarkOptions(
        weights=("random",),
        size="scenes",
        data=str(data),
        protocols=protocols,
        work_dir=str(data.parent / "work"),
    )
    Benchmark(options, lambda line: None).plan()
    (data.parent / "work/runs/random").mkdir(parents=True, exist_ok=True)


def correct_a_label(data):
    path = data / "coco/annotations/instances_train2014.json"
    content = json.loads(path.read_text())
    first = content["annotations"][0]
    first["category_id"] = next(
        each["id"] for each in content["categories"] if each["id"] != first["category_id"]
    )
    path.write_text(json.dumps(content))


def correct_a_mask(data):
    names = (data / "voc/VOC2007/ImageSets/Segmentation/val.txt").read_text().split()
    path = data / f"voc/VOC2007/SegmentationClass/{names[0]}.png"
    with Image.open(path) as image:
        pixels = np.array(image)
        palette = image.getpalette()
    pixels[:8] = 255
    changed = Image.fromarray(pixels, "P")
    changed.putpalette(palette)
    changed.save(path)


def replace_an_image(data):
    path = next((data / "coco/val2014").glob("*.jpg"))
    path.write_bytes(path.read_bytes() + b"0")


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (correct_a_label, r"labels\.linear-coco\.train"),
        (correct_a_mask, r"labels\.segmentation\.test"),
        (replace_an_image, r"images\.linear-coco\.test"),
    ],
)
def test_changed_data_are_refused_beside_earlier_scores(change, what, data):
    plan(data)
    change(data)
    with pytest.raises(ValueError, match=rf"same {what}, but it has changed since .*work-dir"):
        plan(data)


@pytest.mark.full
def test_what_no_list_names_may_change(data):
    plan(data)
    other = next((data / "coco/val2014").glob("*.jpg"))
    shutil.copy(other, other.with_name("other.jpg"))
    plan(data)


@pytest.mark.full
def test_data_that_come_later_are_no_changed_data(data):
    plan(data, PROTOCOLS[1:])
    images = data / "coco/val2014"
    images.rename(data / "away")
    with pytest.raises(FileNotFoundError, match="val2014"):
        plan(data, PROTOCOLS[:1])
    (data / "away").rename(images)
    plan(data, PROTOCOLS[:1])


@pytest.mark.full
def test_a_protocol_that_is_added_later_brings_its_own_digests(data):
    plan(data, PROTOCOLS[:1])
    correct_a_mask(data)
    plan(data)
    found = json.loads((data.parent / "work/benchmark.json").read_text())
    expected = [f"{name}.{split}" for name in PROTOCOLS for split in ("train", "test")]
    assert [*found["labels"]] == [*found["images"]] == expected


def test_voc_is_known_by_the_annotations_of_its_lists(tmp_path):
    root = tmp_path / "data"
    voc = root / "voc128/VOC2007"
    for name in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (voc / name).mkdir(parents=True)
    for split in ("trainval", "test"):
        (voc / f"ImageSets/Main/{split}.txt").write_text(f"{split}_1\n")
        (voc / f"Annotations/{split}_1.xml").write_text("<annotation>dog</annotation>")
        (voc / f"JPEGImages/{split}_1.jpg").touch()
    options = BenchmarkOptions(
        weights=("random",), size="coco128", data=str(root), protocols=("linear-voc",)
    )

    before = Benchmark(options, lambda line: None).settings()
    (voc / "Annotations/test_1.xml").write_text("<annotation>cat</annotation>")
    (voc / "Annotations/other.xml").write_text("<annotation>cat</annotation>")
    after = Benchmark(options, lambda line: None).settings()

    assert before["images"] == after["images"]
    assert before["labels"]["linear-voc.train"] == after["labels"]["linear-voc.train"]
    assert before["labels"]["linear-voc.test"] != after["labels"]["linear-voc.test"]
