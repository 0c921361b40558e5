"""DetCo as in the port at shuuchen/DetCo.pytorch, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh configs/baselines/detco-port_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images). Hardware: 2 GPUs x 64 images. One crop of 255 px of 60 to
100 % of an image is the whole image and the jigsaw. With the port's learning rate for COCO, 0.015
at batch 128, the row of the SS-PRL paper was most likely made (52.7 mAP COCO, 70.6 mAP VOC07 with a
linear classifier). ASSUMPTION: hidden layers of 2,048, not of each input's width. Not run at full
scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

base_lr = 0.015

layout = dict(_base_.layout, image_px=255, image_area=(0.6, 1.0))
model = dict(type="DetCo", layout=layout, level_weights=(0.1, 0.4, 0.7, 1.0), grid=3, patch_px=64)
optim_wrapper = dict(optimizer=dict(lr=base_lr))
