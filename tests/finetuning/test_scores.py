import numpy as np
import pytest
from labelled_folders import write_image, write_mask
from PIL import Image

from mmssprl.datasets.labels import LabelledImage, Object
from mmssprl.finetuning.drawing import palette
from mmssprl.finetuning.tasks import make_task
from mmssprl.finetuning.tasks.detect import Detections

CLASSES = ["disc", "square", "star"]


def detections(boxes, labels, scores, size=(48, 40)):
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(labels, np.int64),
        None,
        size,
    )


class TestClassify:
    def test_one_label(self):
        task = make_task("classify", CLASSES, single_label=True)
        images = [
            LabelledImage(str(i), label=k, labels=frozenset({k})) for i, k in enumerate([0, 0, 1])
        ]
        scores = [
            np.array(row, np.float32) for row in ([0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0, 1, 0])
        ]
        found = task.score(images, scores)
        assert found.total == {"accuracy": pytest.approx(200 / 3)}
        assert found.per_class == [[50.0], [100.0], [None]]
        assert task.found(scores) == [1, 2, 0]

    def test_several_labels(self):
        task = make_task("classify", CLASSES, single_label=False)
        labels = [{0}, {0, 1}, {1}, set()]
        images = [LabelledImage(str(i), labels=frozenset(k)) for i, k in enumerate(labels)]
        scores = np.array(
            [[0.9, 0.1, 0], [0.2, 0.8, 0.6], [0.3, 0.6, 0], [0.1, 0.7, 0]], np.float32
        )
        found = task.score(images, list(scores))
        # disc: ranks 1 and 3 of 4: (1/1 + 2/3) / 2; square: ranks 1 and 3.
        each = 100 * (1 + 2 / 3) / 2
        assert found.per_class == [[pytest.approx(each)], [pytest.approx(each)], [None]]
        assert found.total == {"mAP": pytest.approx(each)}
        assert task.found(list(scores)) == [1, 3, 1]


class TestDetect:
    images = [
        LabelledImage("a", (Object(0, (0, 0, 10, 10)), Object(1, (20, 0, 10, 10))), size=(48, 40)),
        LabelledImage("b", (Object(0, (0, 0, 10, 10)),), size=(48, 40)),
    ]

    def test_boxes(self):
        task = make_task("detect", CLASSES, masks=False)
        # Right, IoU 0.6 with the other disc, and a square in the wrong place.
        predictions = [
            detections([[0, 0, 10, 10], [30, 20, 40, 30]], [0, 1], [0.9, 0.8]),
            detections([[0, 0, 10, 6]], [0], [0.5]),
        ]
        found = task.score(self.images, predictions)
        assert found.heads == ["box AP %", "box AP50 %"]
        disc, square, star = found.per_class
        # One of two from IoU 0.65 on (precision 1 up to recall 0.5: 51 of 101 points), both below.
        assert disc[1] == pytest.approx(100)
        assert disc[0] == pytest.approx(100 * (3 + 7 * 51 / 101) / 10)
        assert square == [0.0, 0.0]
        assert star == [None, None]
        assert found.total["box AP50"] == pytest.approx(50)
        assert task.found(predictions) == [2, 1, 0]

    def test_nothing_found(self):
        task = make_task("detect", CLASSES, masks=False)
        found = task.score(self.images, [detections([], [], [])] * 2)
        assert found.total == {"box AP": 0.0, "box AP50": 0.0, "box AP75": 0.0}
        assert found.per_class == [[0.0, 0.0], [0.0, 0.0], [None, None]]

    def test_drawn_boxes_are_where_the_objects_are(self):
        task = make_task("detect", CLASSES, masks=False)
        gray = Image.new("RGB", (96, 80), (128, 128, 128))  # twice the image's size
        drawn = np.asarray(task.draw(gray, detections([[20, 20, 40, 35]], [1], [0.9])))
        changed = (drawn != 128).any(2)
        assert changed[70, 60]  # the lower edge
        assert not changed[:38].any()
        assert not changed[:, :38].any()
        unsure = task.draw(gray, detections([[20, 20, 40, 35]], [1], [0.1]))
        assert unsure.height > gray.height  # says below that nothing is sure
        assert (np.asarray(unsure)[70, 60] != 128).any()
        assert task.draw(gray, detections([], [], [])).height == unsure.height


class TestSegment:
    def test_shares_of_pixels(self, tmp_path):
        task = make_task("segment", ["background", "disc", "square"])
        write_mask(tmp_path / "m.png", 1)
        truth = np.asarray(Image.open(tmp_path / "m.png"))
        image = LabelledImage("a", mask=str(tmp_path / "m.png"), size=(48, 40))
        predicted = np.where(truth == 2, 2, 0).astype(np.uint8)
        rows = np.flatnonzero((truth == 2).any(1))
        predicted[rows[8:]] = 0  # the lower half of the square is missed
        content = self.read(task, predicted)
        found = task.score([image], [content])
        background = (truth == 0).sum()
        expected = 100 * background / (background + 128)
        assert found.per_class == [[pytest.approx(expected), 100.0], [None, None], [50.0, 50.0]]
        assert found.total["mIoU"] == pytest.approx((expected + 50) / 2)
        assert task.found([content]) == [1, 0, 1]

    def test_label_images_keep_indices_and_have_vocs_colours(self, tmp_path):
        task = make_task("segment", ["background", "disc", "square"])
        labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
        names = ["x/a.jpg", "x/a.png", "b.jpg"]
        task.write(tmp_path, names, [self.read(task, labels)] * 3)
        for name in ("x/a.jpg.png", "x/a.png.png", "b.png"):
            image = Image.open(tmp_path / "masks" / name)
            assert image.mode == "P"
            assert np.array_equal(np.asarray(image), labels)
            assert image.convert("RGB").getpixel((1, 0)) == (128, 0, 0)
            assert image.convert("RGB").getpixel((3, 3 - 1)) == tuple(palette()[11])

    @staticmethod
    def read(task, labels):
        class Tensor:
            def cpu(self):
                return self

            def numpy(self):
                return labels

        sample = type("Sample", (), {})()
        sample.pred_sem_seg = type("Pixels", (), {"data": [Tensor()]})()
        return task.read(sample)


def test_vocs_palette():
    colours = palette()
    assert colours[:4].tolist() == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    assert colours[15].tolist() == [192, 128, 128]
    assert colours[255].tolist() == [224, 224, 192]


def test_labels_are_drawn_in_place(tmp_path):
    write_image(tmp_path / "a.png", 1)
    write_mask(tmp_path / "m.png", 1)
    task = make_task("segment", ["background", "disc", "square"])
    picture = Image.open(tmp_path / "a.png")
    image = LabelledImage("a", mask=str(tmp_path / "m.png"))
    drawn = np.asarray(task.draw_truth(picture, image))[:40]
    changed = (drawn != np.asarray(picture)).any(2)
    labels = np.asarray(Image.open(tmp_path / "m.png"))
    assert np.array_equal(changed, labels > 0)
