from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import write_mask
from helpers.engine.logs import write_log
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData, PixelData
from mmpretrain.structures import DataSample
from PIL import Image

from mmssprl.datasets.labels import LabelledData, LabelledImage, Object
from mmssprl.drawing.named_boxes import class_colour
from mmssprl.errors import UserValueError
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.scores import find_best
from mmssprl.finetuning.tasks import TASKS
from mmssprl.probing.measures import PixelIoU

CLASSES = ["disc", "square", "star"]
SEGMENTS = ["background", "disc", "square"]


def detections(boxes, labels, scores, number=1):
    from mmdet.structures import DetDataSample

    found = InstanceData(
        bboxes=torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        scores=torch.tensor(scores, dtype=torch.float32),
        labels=torch.tensor(labels, dtype=torch.long),
    )
    return DetDataSample(pred_instances=found, metainfo={"ori_shape": (40, 48), "img_id": number})


def pixels(labels):
    return PixelData(data=torch.from_numpy(labels.astype(np.int64)[None]))


def scored(task, samples, labels=None):
    with DefaultScope.overwrite_default_scope(task.scope):
        evaluator = Evaluator(task.metrics(labels))
    evaluator.dataset_meta = {"classes": task.classes}
    evaluator.process(samples)
    return task.score(evaluator.metrics)


def guesses(scores, kind, labels):
    return [
        DataSample(pred_score=torch.tensor(row), **{kind: torch.tensor(label)})
        for row, label in zip(scores, labels, strict=True)
    ]


class TestClassify:
    def test_one_label(self):
        task = TASKS["classify"](CLASSES, single_label=True)
        scores = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.0, 1.0, 0.0]]
        found = scored(task, guesses(scores, "gt_label", [[0], [0], [1]]))
        assert found.total == {"accuracy": pytest.approx(200 / 3)}
        assert found.per_class == [[50.0], [100.0], [None]]
        assert found.confusion == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]

    def test_several_labels(self):
        task = TASKS["classify"](CLASSES, single_label=False)
        labels = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]]
        scores = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.6], [0.3, 0.6, 0.0], [0.1, 0.7, 0.0]]
        found = scored(task, guesses(scores, "gt_score", labels))
        # disc: ranks 1 and 3 of 4: (1/1 + 2/3) / 2; square: ranks 1 and 3.
        each = 100 * (1 + 2 / 3) / 2
        assert found.per_class == [[pytest.approx(each)], [pytest.approx(each)], [None]]
        assert found.total == {"mAP": pytest.approx(each)}

    def test_a_small_picture_is_drawn_large(self):
        task = TASKS["classify"](CLASSES, single_label=True)
        sample = DataSample().set_pred_score(torch.eye(3)[1]).set_pred_label(1)
        drawn = task.draw(np.full((24, 48, 3), 90, np.uint8), sample)
        assert drawn.shape[1] == 640
        assert drawn.shape[0] > 320
        assert (drawn[-320:] == 90).all()  # the words hide nothing

    @pytest.mark.parametrize(("label", "is_red"), [(1, False), (2, True)])
    def test_a_wrong_class_is_red(self, label, is_red):
        task = TASKS["classify"](CLASSES, single_label=True)
        sample = DataSample().set_pred_score(torch.tensor([0.3, 0.5, 0.2])).set_gt_label(label)
        drawn = task.draw(np.full((24, 48, 3), 90, np.uint8), sample)
        red = drawn[..., 0].astype(int) - drawn[..., 1] > 80
        assert red.any() == is_red

    @pytest.mark.parametrize(("state", "is_red"), [(1, False), (-1, False), (0, True)])
    def test_an_unknown_class_is_not_wrong(self, state, is_red):
        task = TASKS["classify"](CLASSES, single_label=False)
        sample = DataSample().set_pred_score(torch.tensor([0.3, 0.9, 0.2]))
        sample.set_gt_score(torch.tensor([1, state, 0])).set_gt_label([0, 1] if state == 1 else [0])
        drawn = task.draw(np.full((24, 48, 3), 90, np.uint8), sample)
        red = drawn[..., 0].astype(int) - drawn[..., 1] > 80
        assert red.any() == is_red


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
        return scored(task, samples, tmp_path / "val.json")

    def test_boxes(self, task, tmp_path):
        # Right, IoU 0.6 with the other disc, and a square in the wrong place.
        samples = [
            detections([[0, 0, 10, 10], [30, 20, 40, 30]], [0, 1], [0.9, 0.8]),
            detections([[0, 0, 10, 6]], [0], [0.5], 2),
        ]
        found = self.score(task, samples, tmp_path)
        assert found.heads == ["box AP %"]
        # One of two from IoU 0.65 on (precision 1 up to recall 0.5: 51 of 101 points), both below.
        disc = pytest.approx(100 * (3 + 7 * 51 / 101) / 10, abs=0.05)
        assert found.per_class == [[disc], [0.0], [None]]
        assert found.total["box AP50"] == pytest.approx(50)

    def test_nothing_found(self, task, tmp_path):
        found = self.score(task, [detections([], [], [], i) for i in (1, 2)], tmp_path)
        assert found.total == {"box AP": 0.0, "box AP50": 0.0, "box AP75": 0.0}
        assert found.per_class == [[None]] * 3  # mmdet gives none

    def test_objects_have_the_keys_that_other_tools_require(self, task):
        sample = detections([[0, 0, 10, 10]], [1], [0.9])
        size, (thing,) = task.read(sample)
        assert (size, thing["area"], thing["segmentation"]) == ((48, 40), 100, [])

        sample.pred_instances.masks = torch.zeros(1, 40, 48, dtype=torch.bool)
        sample.pred_instances.masks[0, :10, :7] = True
        _, (thing,) = TASKS["detect"](CLASSES, masks=True).read(sample)
        assert (thing["area"], thing["segmentation"]["size"]) == (70, [40, 48])

    def test_labels_are_left_of_what_was_found(self, task):
        sample = detections([[0, 0, 10, 10], [30, 20, 40, 30]], [0, 1], [0.9, 0.2])
        picture = np.full((40, 48, 3), 90, np.uint8)
        sample.gt_instances = InstanceData()  # as mmdet has it without labels
        alone = task.draw(picture, sample)
        assert alone.shape == (533, 640, 3)  # a small picture is drawn large
        sample.gt_instances = InstanceData(
            bboxes=torch.tensor([[20.0, 0, 30, 10]]), labels=torch.tensor([1])
        )
        both = task.draw(picture, sample)
        assert both.shape == (533, 1288, 3)  # with a gap of 8 px
        assert np.array_equal(both[:, 648:], alone)
        assert (both[:, :640] != alone).any()

    @pytest.mark.parametrize("side", [2, 18])
    def test_a_name_is_legible_inside_the_picture_whatever_its_box(self, task, side):
        sample = detections([[46 - side, 38 - side, 46, 38]], [0], [0.9])
        drawn = task.draw(np.full((40, 48, 3), 90, np.uint8), sample)  # 533 x 640 px
        top = int(533 * (38 - side) / 40)
        ground = (drawn[: top - 1] == class_colour(0)).all(2)  # above the box
        rows = np.flatnonzero(ground.sum(1) > 20)
        columns = np.flatnonzero(ground.any(0))
        assert 17 <= np.ptp(rows) + 1 <= 24
        assert 60 <= np.ptp(columns) + 1 <= 100  # "disc 0.90"
        assert columns.max() < 640

    def test_a_large_picture_is_drawn_small(self, task):
        from mmdet.structures.mask import BitmapMasks

        sample = detections([[400, 0, 800, 400]], [0], [0.9])
        found = np.zeros((1, 800, 1280), bool)
        labels = np.zeros((1, 800, 1280), np.uint8)
        found[:, :400, 400:800] = True
        labels[:, 400:, :400] = 1
        sample.pred_instances.masks = torch.from_numpy(found)
        boxes = torch.tensor([[0.0, 400, 400, 800]])
        masks = BitmapMasks(labels, 800, 1280)
        about = {"bboxes": boxes, "labels": torch.tensor([1]), "masks": masks}
        sample.gt_instances = InstanceData(**about)
        drawn = task.draw(np.full((800, 1280, 3), 90, np.uint8), sample)
        assert drawn.shape == (400, 1288, 3)
        changed = (drawn != 90).any(2)
        assert changed[210:390, 10:190].all()
        assert changed[10:190, 858:1038].all()
        assert not changed[:150, :640].any()
        assert not changed[250:, 648:].any()
        assert sample.gt_instances.bboxes.max() == 800


@pytest.mark.full
def test_shares_of_pixels(tmp_path):
    from mmseg.evaluation import IoUMetric
    from mmseg.structures import SegDataSample

    task = TASKS["segment"](SEGMENTS)
    write_mask(tmp_path / "m.png", 1)
    truth = np.asarray(Image.open(tmp_path / "m.png"))
    predicted = np.where(truth == 2, 2, 0).astype(np.uint8)
    rows = np.flatnonzero((truth == 2).any(1))
    predicted[rows[8:]] = 0  # the lower half of the square is missed
    sample = SegDataSample(pred_sem_seg=pixels(predicted), gt_sem_seg=pixels(truth))
    found = scored(task, [sample])
    background = (truth == 0).sum()
    expected = 100 * background / (background + 128)
    assert found.per_class == [[pytest.approx(expected), 100.0], [None, None], [50.0, 50.0]]
    assert found.total["mIoU"] == pytest.approx((expected + 50) / 2)
    theirs = IoUMetric()
    theirs.dataset_meta = {"classes": SEGMENTS}
    theirs.process(None, [sample.to_dict()])
    confirmed = theirs.compute_metrics(theirs.results)
    assert found.total["mIoU"] == pytest.approx(confirmed["mIoU"], abs=0.01)
    assert found.total["right pixels"] == pytest.approx(confirmed["aAcc"], abs=0.01)
    drawn = task.draw(np.full((40, 48, 3), 100, np.uint8), sample)
    assert drawn.shape[1] == 1288
    assert (drawn[:533, :640] != drawn[:533, 648:]).any()
    below = drawn[533:]
    square = (0, 128, 0)  # VOC's third colour
    assert (below == square).all(2).any()
    assert not (below == (128, 0, 0)).all(2).any()  # no disc is in the picture


def test_pixels_are_counted_beyond_float32():
    metric = PixelIoU()
    metric.dataset_meta = {"classes": ["background", "disc"]}
    images = {"pred_sem_seg": [[0, 1, 1, 0]], "gt_sem_seg": [[0, 0, 1, 255]]}
    metric.process(None, [{name: {"data": torch.tensor([x])} for name, x in images.items()}])
    [counts] = metric.results
    assert counts.tolist() == [[1, 1], [2, 1], [1, 2]]
    most = 2**24  # float32 counts no further
    large = counts + most
    assert large.tolist() == [[most + 1, most + 1], [most + 2, most + 1], [most + 1, most + 2]]
    shares = metric.compute_metrics([large])
    assert shares["aAcc"] == pytest.approx(100 * (2 * most + 2) / (2 * most + 3), rel=1e-12)


def test_a_label_of_no_class_is_refused():
    metric = PixelIoU()
    metric.dataset_meta = {"classes": ["background", "disc"]}
    sample = {name: {"data": torch.tensor([[[7]]])} for name in ("pred_sem_seg", "gt_sem_seg")}
    with pytest.raises(UserValueError, match="classes below 2, or 255, but that of a.jpg has 7"):
        metric.process(None, [{**sample, "img_path": "a.jpg"}])


@pytest.mark.parametrize("best", [1, 2, 3])
def test_the_best_of_several_kept_checkpoints_has_the_best_score(tmp_path, best):
    task = SimpleNamespace(val_score=("acc", "top-1", 100))
    lines = [{"acc": 0.5 if epoch == best else 0.25, "step": epoch} for epoch in (1, 2, 3, 4)]
    write_log(tmp_path, lines)
    assert find_best(tmp_path, task) == {}
    for epoch in (1, 2, 3):
        (tmp_path / f"best_acc_epoch_{epoch}.pth").touch()
    found = {"epoch": best, "score": 50.0, "file": f"best_acc_epoch_{best}.pth"}
    assert find_best(tmp_path, task) == found
