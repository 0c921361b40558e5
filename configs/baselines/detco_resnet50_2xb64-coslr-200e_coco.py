"""DetCo (arXiv:2102.04803), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/detco_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: a jigsaw has 3 x 3 squares of 64 px from a crop of 60 to 100 % of an image, as published.
Whole images are the views of MoCo v2. At equal lr the loss is 6.6 times MoCo's.
ASSUMPTIONS: no RandAugment, because its strength is not published; hidden layers of 2,048 units;
level weights from a port; the lr of MoCo v2 on COCO.
Reported in the SS-PRL paper: 52.7 mAP (COCO), 70.6 mAP (VOC07) with a linear classifier on DetCo's
features, most likely with detco-port_resnet50_2xb64-coslr-200e_coco.py.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, num_small=2, small_px=255, small_area=(0.6, 1.0))
model = dict(
    type="DetCo",
    layout=layout,
    level_weights=(0.1, 0.4, 0.7, 1.0),
    grid=3,
    patch_px=64,
)
small = {
    "optim_wrapper.optimizer.lr": [2e-3, 2e-3, 1e-3],  # not tuned
    "model.layout.small_px": [84, 84, 168],
    "model.level_weights": [(0.4, 0.7, 1.0), (0.4, 0.7, 1.0), (0.1, 0.4, 0.7, 1.0)],
    "model.patch_px": [24, 24, 48],
}
