"""DetCo (arXiv:2102.04803), ResNet-50, ImageNet-1k train without labels, 100 epochs.

    bash tools/dist_train.sh configs/baselines/detco_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
Recipe: the published settings for 200 epochs.
ASSUMPTIONS: the same settings for 100 epochs, the length in the SS-PRL paper, and the assumptions
of the COCO config.
Reported in the SS-PRL paper: 60.0 mAP (COCO), 81.3 mAP (VOC07) with a linear classifier on DetCo's
features.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
base_lr = 0.03 * num_gpus * batch_size / 256

layout = dict(_base_.layout, num_small=2, small_px=255, small_area=(0.6, 1.0))
model = dict(
    type="DetCo",
    layout=layout,
    level_weights=(0.1, 0.4, 0.7, 1.0),
    grid=3,
    patch_px=64,
    bn_groups=batch_size // 32,
)
train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root="data/imagenet/train"))
optim_wrapper = dict(optimizer=dict(lr=base_lr))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
