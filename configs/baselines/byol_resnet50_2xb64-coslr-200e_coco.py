"""BYOL (arXiv:2006.07733), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/byol_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: views, heads and augmentation are the paper's. Optimiser, warm-up and momentum are as in
ORL's published BYOL on COCO (SGD, lr 0.4 at batch 512, 800 epochs of train2017).
ASSUMPTIONS: ORL's lr, scaled linearly to batch 128, and the rest of its recipe also suit 200
epochs.
Reported in the SS-PRL paper: 52.6 mAP (COCO), 70.1 mAP (VOC07) with a linear classifier on BYOL's
features, trained with unknown settings.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 200
warmup_epochs = 4
num_gpus = 2
batch_size = 64  # per GPU; x 2 GPUs = 128
base_lr = 0.4 * num_gpus * batch_size / 512
data_root = "data/coco/train2014"

layout = dict(_base_.layout, image_area=(0.08, 1.0), levels=[])
model = dict(
    _delete_=True,
    type="BYOL",
    layout=layout,
    data_preprocessor=dict(
        type="PyramidPreprocessor",
        flip_prob=0.5,
        brightness=0.4,
        contrast=0.4,
        saturation=0.2,
        hue=0.1,
        jitter_prob=0.8,
        grayscale_prob=0.2,
        blur_prob=(1.0, 0.1),  # first and second view, like the next field
        blur_sigma=(0.1, 2.0),
        solarize_prob=(0.0, 0.2),
    ),
    backbone=_base_.model.backbone,
    neck=dict(in_channels=_base_.feature_channels, hid_channels=4096, out_channels=256),
    base_momentum=0.99,
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
    dict(
        type="LinearLR",
        start_factor=1e-4,
        end=warmup_epochs,
        by_epoch=True,
        convert_to_iter_based=True,
    ),
    dict(
        type="CosineAnnealingLR",
        T_max=max_epochs - warmup_epochs,
        begin=warmup_epochs,
        by_epoch=True,
        convert_to_iter_based=True,
    ),
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
# Changes at the small sizes (--size). Lists have values for scenes, photos and photos-gpu.
small = {
    "warmup_epochs": 1,
    "train_dataloader.batch_size": 64,
    "optim_wrapper.optimizer.lr": [1e-3, 3e-3, 1.5e-3],  # tuned on photographs
    # Averages over 1 / (1 - m) steps, 33 of 108 and 100 of 1,400. 0.996 would hardly move.
    "model.base_momentum": [0.97, 0.99, 0.99],
}
