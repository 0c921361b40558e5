"""Every reader of files that users bring, with every kind of garbage: one line, no traceback."""

import io
import zipfile
from functools import partial

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import (
    write_coco,
    write_image,
    write_masks,
    write_voc,
    write_yolo,
)
from PIL import Image

from mmssprl.config.reading import read_config_file
from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.tar_images import index_tars
from mmssprl.datasets.unlabeled_images import _read_names
from mmssprl.engine.history import read_scalars
from mmssprl.errors import UserError
from mmssprl.probing.probe_file import read_probes
from mmssprl.reporting.finetuning import content_of
from mmssprl.search.embeddings import read_embeddings
from mmssprl.weights.checkpoint_prefixes import find_network
from mmssprl.weights.description import read_description


def zipped(**contents):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name.replace("_", "."), content)
    return file.getvalue()


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def image(mode, format):
    file = io.BytesIO()
    Image.new(mode, (48, 40)).save(file, format)
    return file.getvalue()


GARBAGE = {
    "nothing": b"",
    "bytes": np.random.default_rng(0).bytes(2000),
    "latin-1": "Gefäß: [é, ü]\n".encode("latin-1"),
    "UTF-16": "names: [a, b]\n".encode("utf-16"),
    "surrogates": b'{"images": [{"id": 1, "file_name": "\\ud800"}]}',
    "HTML": b"<!DOCTYPE html><html><head><title>404</title></head><body>no</body></html>",
    "LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "null": b"null",
    "list": b"[1, [2, {}]]",
    "wrong lists": b'{"images": [1], "annotations": {}, "categories": [null]}',
    "wrong entries": b'{"images": [{}], "annotations": [{}], "categories": [{}]}',
    "NaN": b'{"images": [{"id": NaN, "file_name": "a"}], "annotations": [], "categories": []}',
    "key twice": b'{"images": [], "images": []}',
    "deep list": b"[" * 100_000,
    "deep YAML": b"a: " + b"{a: " * 2000,
    "deep XML": b"<a>" * 20_000,
    "digits": b"9" * 10_000,
    "truncated JSON": b'{"images": [{"id": 1, "file_name": "a.jpg"',
    "truncated XML": b"<annotation><object><name>disc</name>",
    "unknown encoding": b'<?xml version="1.0" encoding="klingon"?><annotation/>',
    "no encoding": b'<?xml version="1.0" encoding="rot13"?><annotation/>',
    "entities": b'<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;&d;</annotation>',
    "YAML tag": b"names: !!python/object/apply:os.system [echo]\n",
    "YAML aliases": b"names: &a [*a]\n",
    "CSV": b"epoch,loss\n1,2\nx,y,z\n",
    "Python": b"raise RuntimeError(3)\n",
    "syntax": b"def (:\n",
    "image": image("RGB", "PNG"),
    "half an image": image("RGB", "PNG")[:90],
    "image of floats": image("F", "TIFF"),
    "zip": zipped(a_txt="hello"),
    "npz of text": zipped(names_npy="hello", about_npy="hello"),
    "half a zip": zipped(a_txt="hello" * 100)[:60],
    "pickle": saved({"a": 1}),
    "half a pickle": saved({"a": torch.zeros(100)})[:300],
    "state of numbers": saved({"state_dict": {"conv1.weight": 3, "layer1": None}}),
    "safetensors of no header": (2**40).to_bytes(8, "little") + b"{}",
    "safetensors of wrong header": (2).to_bytes(8, "little") + b"[]",
}  # fmt: skip


def label_file(write, name, task, content, folder):
    """A file among good labels, which are all read; they are written once."""
    root = folder.parent / "data"
    if not root.exists():
        write(root)
    (root / name).write_bytes(content)
    find_labels(root, task)


def file(name, read, content, folder):
    """A file by its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    read(path)


def report_scores(name, content, folder):
    task = "task='classify', classes=['a', 'b'], facts=dict(single_label=True)"
    (folder / "classify.py").write_text(f"finetuning = dict({task})")
    (folder / "scores.json").write_text('{"accuracy": 50.0, "per_class": {}}')
    (folder / "scores.csv").write_text("class,train images,val images\n")
    write_image(folder / "predictions.png", 0)
    (folder / name).write_bytes(content)
    content_of(read_config_file(folder / "classify.py"))


READERS = {
    "COCO": partial(label_file, write_coco, "train/_annotations.coco.json", "detect"),
    "another JSON": partial(label_file, write_coco, "notes.json", "segment"),
    "VOC": partial(label_file, write_voc, "Annotations/img_003.xml", "detect"),
    "VOC's list": partial(label_file, write_voc, "ImageSets/Main/train.txt", "detect"),
    "data.yaml": partial(label_file, write_yolo, "data.yaml", "detect"),
    "YOLO": partial(label_file, write_yolo, "labels/train/3.txt", "detect"),
    "all of YOLO": partial(label_file, write_yolo, "labels/train/0.txt", "classify"),
    "classes": partial(label_file, write_masks, "classes.txt", "segment"),
    "label image": partial(label_file, write_masks, "masks/train/3.png", "segment"),
    "image": partial(label_file, write_coco, "train/pictures/cam 0/Shot-04.v1.PNG", "detect"),
    "image alone": partial(file, "a.jpg", read_image),
    "list": partial(file, "a.txt", lambda path: _read_names(str(path))),
    "tar": partial(file, "a.tar", lambda path: index_tars({"": str(path)})),
    "config": partial(file, "a.py", read_config_file),
    "weights": partial(file, "a.pth", find_network),
    "safetensors": partial(file, "a.safetensors", find_network),
    "detectron2": partial(file, "a.pkl", find_network),
    "weights' description": partial(file, "a.json", read_description),
    "embeddings": partial(file, "a.npz", read_embeddings),
    "probes": partial(file, "probe.csv", read_probes),
    "log": partial(file, "2026/vis_data/scalars.json", lambda p: [*read_scalars(p.parents[2])]),
    "scores": partial(report_scores, "scores.json"),
    "table of scores": partial(report_scores, "scores.csv"),
    "pictures": partial(report_scores, "predictions.png"),
}


@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_refused_in_one_line(tmp_path, reader):
    for number, (kind, content) in enumerate(GARBAGE.items()):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        try:
            READERS[reader](content, folder)
            text = ""
        except (UserError, OSError) as error:
            text = str(error).replace(str(tmp_path), "")
        except Exception as error:
            pytest.fail(f"{reader} of {kind}: {type(error).__name__}: {error}")
        assert "\n" not in text.strip(), kind
        assert len(text) < 700, kind
