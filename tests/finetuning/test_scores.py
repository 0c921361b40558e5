import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import write_mask
from mmengine.structures import InstanceData, PixelData
from PIL import Image

from mmssprl.datasets.labels import LabelledData, LabelledImage, Object
from mmssprl.datasets.labels.masks import palette
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.tasks import TASKS

CLASSES = ["disc", "square", "star"]
SEGMENTS = ["background", "disc", "square"]


def detections(boxes, labels, scores, size=(48, 40)):
    from mmdet.structures import DetDataSample

    found = InstanceData(
        bboxes=torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        scores=torch.tensor(scores, dtype=torch.float32),
        labels=torch.tensor(labels, dtype=torch.long),
    )
    return DetDataSample(pred_instances=found, metainfo={"ori_shape": size[::-1]})


def segments(labels):
    from mmseg.structures import SegDataSample

    return SegDataSample(
        pred_sem_seg=PixelData(data=torch.from_numpy(labels.astype(np.int64)[None]))
    )


class TestClassify:
    def test_one_label(self):
        task = TASKS["classify"](CLASSES, single_label=True)
        images = [
            LabelledImage(str(i), label=k, labels=frozenset({k})) for i, k in enumerate([0, 0, 1])
        ]
        scores = [
            np.array(row, np.float32) for row in ([0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0, 1, 0])
        ]
        found = task.score(images, scores, None)
        assert found.total == {"accuracy": pytest.approx(200 / 3)}
        assert found.per_class == [[50.0], [100.0], [None]]
        assert found.confusion == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]

    def test_several_labels(self):
        task = TASKS["classify"](CLASSES, single_label=False)
        labels = [{0}, {0, 1}, {1}, set()]
        images = [LabelledImage(str(i), labels=frozenset(k)) for i, k in enumerate(labels)]
        scores = np.array(
            [[0.9, 0.1, 0], [0.2, 0.8, 0.6], [0.3, 0.6, 0], [0.1, 0.7, 0]], np.float32
        )
        found = task.score(images, list(scores), None)
        # disc: ranks 1 and 3 of 4: (1/1 + 2/3) / 2; square: ranks 1 and 3.
        each = 100 * (1 + 2 / 3) / 2
        assert found.per_class == [[pytest.approx(each)], [pytest.approx(each)], [None]]
        assert found.total == {"mAP": pytest.approx(each)}


@pytest.mark.full
class TestDetect:
    images = [
        LabelledImage("a", (Object(0, (0, 0, 10, 10)), Object(1, (20, 0, 10, 10))), size=(48, 40)),
        LabelledImage("b", (Object(0, (0, 0, 10, 10)),), size=(48, 40)),
    ]

    @pytest.fixture
    def task(self):
        return TASKS["detect"](CLASSES, masks=False)

    def score(self, task, samples, tmp_path):
        data = LabelledData(tmp_path, "COCO", CLASSES, self.images, self.images, "")
        write_labels(data, tmp_path, "detect")
        found = [task.read(sample) for sample in samples]
        return task.score(self.images, found, tmp_path / "val.json")

    def test_boxes(self, task, tmp_path):
        # Right, IoU 0.6 with the other disc, and a square in the wrong place.
        samples = [
            detections([[0, 0, 10, 10], [30, 20, 40, 30]], [0, 1], [0.9, 0.8]),
            detections([[0, 0, 10, 6]], [0], [0.5]),
        ]
        found = self.score(task, samples, tmp_path)
        assert found.heads == ["box AP %", "box AP50 %"]
        disc, square, star = found.per_class
        # One of two from IoU 0.65 on (precision 1 up to recall 0.5: 51 of 101 points), both below.
        assert disc[1] == pytest.approx(100)
        assert disc[0] == pytest.approx(100 * (3 + 7 * 51 / 101) / 10)
        assert square == [0.0, 0.0]
        assert star == [None, None]
        assert found.total["box AP50"] == pytest.approx(50)

    def test_nothing_found(self, task, tmp_path):
        found = self.score(task, [detections([], [], [])] * 2, tmp_path)
        assert found.total == {"box AP": 0.0, "box AP50": 0.0, "box AP75": 0.0}
        assert found.per_class == [[0.0, 0.0], [0.0, 0.0], [None, None]]


@pytest.mark.full
class TestSegment:
    def test_shares_of_pixels(self, tmp_path):
        task = TASKS["segment"](SEGMENTS)
        write_mask(tmp_path / "m.png", 1)
        truth = np.asarray(Image.open(tmp_path / "m.png"))
        image = LabelledImage("a", mask=str(tmp_path / "m.png"), size=(48, 40))
        predicted = np.where(truth == 2, 2, 0).astype(np.uint8)
        rows = np.flatnonzero((truth == 2).any(1))
        predicted[rows[8:]] = 0  # the lower half of the square is missed
        content = task.read(segments(predicted))
        found = task.score([image], [content], None)
        background = (truth == 0).sum()
        expected = 100 * background / (background + 128)
        assert found.per_class == [[pytest.approx(expected), 100.0], [None, None], [50.0, 50.0]]
        assert found.total["mIoU"] == pytest.approx((expected + 50) / 2)

    def test_labels_are_drawn_on_the_left_of_the_prediction(self, tmp_path):
        task = TASKS["segment"](SEGMENTS)
        write_mask(tmp_path / "m.png", 1)
        image = LabelledImage("a", mask=str(tmp_path / "m.png"), size=(48, 40))
        picture, none_found = np.full((40, 48, 3), 100, np.uint8), segments(np.zeros((40, 48)))
        drawn = task.draw(picture, none_found, image)
        assert drawn.shape == (40, 96, 3)
        alone = task.draw(picture, none_found)
        assert np.array_equal(drawn[:, 48:], alone)
        square = np.asarray(Image.open(tmp_path / "m.png")) == 2
        assert (drawn[:, :48][square].mean(0) != alone[square].mean(0)).any()

    def test_label_images_keep_indices_and_have_vocs_colours(self, tmp_path):
        task = TASKS["segment"](SEGMENTS)
        labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
        names = ["x/a.jpg", "x/a.png", "b.jpg"]
        task.write(tmp_path, names, [task.read(segments(labels))] * 3)
        for name in ("x/a.jpg.png", "x/a.png.png", "b.png"):
            image = Image.open(tmp_path / "masks" / name)
            assert image.mode == "P"
            assert np.array_equal(np.asarray(image), labels)
            assert image.convert("RGB").getpixel((1, 0)) == (128, 0, 0)
            assert image.convert("RGB").getpixel((3, 3 - 1)) == tuple(palette()[11])
