"""Mask R-CNN at CPU size on the embedded sample data: do pre-trained weights help detection?

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/benchmarks/detection/mask-rcnn_resnet18-fpn_scenes.py \
        --weights backbone.pth

The backbone is the one of ssprl_resnet18_scenes.py. AdamW replaces SGD, as in pre-training at this
size.
Measured with random weights, one seed, AP / AP50 / AP75 in percent: 5.9/10.6/6.0 for boxes,
5.3/10.2/4.9 for masks. Half and double the learning rate gave 8.7 and 6.3 AP50 for boxes. Over
three seeds, box AP was 5.3 +- 0.9 with random weights and 4.4 +- 1.3 with the ones of `make demo`.
Hardware: one CPU core, 2.5 minutes of CPU time.
"""

_base_ = ["../../_base_/mask_rcnn_fpn_small.py"]
# Must be below _base_, or mmengine parses this file as a new-style config.
from mmssprl.datasets.scenes import SCENE_CATEGORIES as classes  # noqa: E402

data_root = "data/scenes/coco"

head = dict(num_classes=len(classes))
model = dict(roi_head=dict(bbox_head=head, mask_head=head))
data = dict(data_root=data_root, metainfo=dict(classes=classes))
train_dataloader = dict(dataset=data)
val_dataloader = dict(batch_size=10, dataset=data)
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f"{data_root}/{_base_.val_ann_file}")
test_evaluator = val_evaluator
