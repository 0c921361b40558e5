"""The layouts of real data: photographs of COCO and of PASCAL VOC."""

import os
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import write_weights

from mmssprl.finetuning.predict import predict
from mmssprl.finetuning.start import finetune

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository"),
]


@pytest.mark.parametrize(
    ("name", "task", "score"),
    [
        ("coco128", "classify", "mAP"),
        ("coco128", "detect", "box AP"),
        ("voc128", "detect", "box AP"),
        ("voc128", "segment", "mIoU"),
    ],
)
def test_a_training_and_its_predictions(name, task, score, tmp_path):
    weights = write_weights(tmp_path / "weights")
    lines: list[str] = []
    outcome = finetune(
        weights, DATA / name, task, tmp_path / "run", epochs=1, image_px=64, log=lines.append
    )
    assert next(iter(outcome.scores.total)) == score
    assert any(line.startswith("forecast: 1 epoch,") for line in lines)
    assert (tmp_path / "run" / "predictions.png").is_file()
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    for path in sorted((DATA / "coco128/val2014").iterdir())[:5]:
        os.symlink(path, photographs / path.name)
    text = predict(tmp_path / "run", photographs, tmp_path / "out", log=lambda text: None)
    assert "pictures of 5 images" in text
