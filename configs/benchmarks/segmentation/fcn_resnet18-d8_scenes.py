"""FCN at CPU size on the embedded sample data: do pre-trained weights help segmentation?

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/benchmarks/segmentation/fcn_resnet18-d8_scenes.py \
        --weights backbone.pth

The backbone is the one of ssprl_resnet18_scenes.py with its last stage dilated. AdamW replaces SGD,
as in pre-training at this size.
Measured with random weights, one seed: mIoU 9.2. Predicting only background scores 3.3. Over three
seeds, mIoU was 9.8 +- 1.2 with random weights and 11.3 +- 0.5 with the weights of `make demo`.
Hardware: one CPU core, 1.5 minutes of CPU time.
"""

_base_ = ["../../_base_/fcn_d8_small.py"]
# Must be below _base_, or mmengine parses this file as a new-style config.
from mmssprl.datasets.scenes import SCENE_CATEGORIES  # noqa: E402

data_root = "data/scenes/voc/VOC2007"
classes = ("background", *SCENE_CATEGORIES)
background_weight = 0.1  # in the loss; with 1.0 it predicts almost only background

class_weight = [background_weight] + [1.0] * len(SCENE_CATEGORIES)
model = dict(
    decode_head=dict(num_classes=len(classes), loss_decode=dict(class_weight=class_weight))
)
data = dict(type="BaseSegDataset", data_root=data_root, metainfo=dict(classes=classes))
train_dataloader = dict(dataset=data)
val_dataloader = dict(batch_size=8, dataset=data)
test_dataloader = val_dataloader
