"""DetCo as in the port at shuuchen/DetCo.pytorch, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh configs/baselines/detco-port_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: one crop of 255 px, 60 to 100 % of an image, is both the whole image and the source of the
jigsaw. The lr is the port's for COCO, 0.015 at batch 128.
ASSUMPTION: hidden layers of 2,048 units; in the port they are as wide as their input.
Reported in the SS-PRL paper, most likely for this port: 52.7 mAP (COCO), 70.6 mAP (VOC07) with a
linear classifier.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

base_lr = 0.015

layout = dict(_base_.layout, image_px=255, image_area=(0.6, 1.0))
model = dict(type="DetCo", layout=layout, level_weights=(0.1, 0.4, 0.7, 1.0), grid=3, patch_px=64)
optim_wrapper = dict(optimizer=dict(lr=base_lr))
