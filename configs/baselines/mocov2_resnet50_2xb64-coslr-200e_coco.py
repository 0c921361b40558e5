"""MoCo v2 (arXiv:2003.04297), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/mocov2_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: views, head, queue, momentum, temperature and optimiser are the paper's. BatchNorm sees
groups of 32 images, as on the paper's 8 GPUs. The queue holds 0.79 of an epoch; arXiv:2308.03286
uses 4,096 keys and momentum 0.995 on COCO.
ASSUMPTION: the lr of ORL and DenseCL on COCO, 0.3 at batch 256, scaled linearly to batch 128. This
is ten times the lr for ImageNet.
Reported in the SS-PRL paper: 50.2 mAP (COCO), 67.9 mAP (VOC07) with a linear classifier on MoCo
v2's features, trained with unknown settings.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 200
num_gpus = 2
batch_size = 64  # per GPU; x 2 GPUs = 128
base_lr = 0.3 * num_gpus * batch_size / 256
data_root = "data/coco/train2014"

layout = dict(_base_.layout, image_area=(0.2, 1.0), levels=[])
model = dict(
    _delete_=True,
    type="MoCo",
    layout=layout,
    data_preprocessor=dict(
        type="PyramidPreprocessor",
        flip_prob=0.5,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        jitter_prob=0.8,
        grayscale_prob=0.2,
        blur_prob=0.5,
        blur_sigma=(0.1, 2.0),
    ),
    backbone=_base_.model.backbone,
    neck=dict(in_channels=_base_.feature_channels, hid_channels=2048, out_channels=128),
    queue_length=65536,
    momentum=0.999,
    temperature=0.2,
    bn_groups=batch_size // 32,
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(data_root=data_root),
)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=base_lr, momentum=0.9, weight_decay=1e-4),
)
param_scheduler = [
    dict(type="CosineAnnealingLR", T_max=max_epochs, by_epoch=True, convert_to_iter_based=True)
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
sync_bn = None  # one group of all images would reveal the keys
# Changes at the small sizes (--size). Lists have values for scenes, photos and photos-gpu.
small = {
    "warmup_epochs": 1,
    "train_dataloader.batch_size": 64,
    "optim_wrapper.optimizer.lr": [2e-3, 2e-3 / 3, 1e-3 / 3],  # tuned on photographs
    "model.queue_length": 512,  # keys of 8 steps, less than half of 1,200 scenes
    # Averages over 1 / (1 - m) steps, 33 of 108 and 100 of 1,400. 0.999 would hardly move.
    "model.momentum": [0.97, 0.99, 0.99],
    "model.bn_groups": 4,  # 16 images each
}
