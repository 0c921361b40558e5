"""MaskCo (arXiv:2108.07954), our reading, ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/maskco_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: no code of MaskCo is known. Its abstract and the caption of its overview figure describe the
masked region, the head that predicts the features under it, and negatives from other images and a
few from the same image.
ASSUMPTIONS: everything else, see ``MaskCo`` and ``RegionPairCrop``. Views, head, queue, momentum,
temperature and optimiser are as for MoCo v2, with the lr of its COCO config.
Reported in the SS-PRL paper: 51.9 mAP (COCO), 70.2 mAP (VOC07) with a linear classifier on MaskCo's
features.
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
    type="MaskCo",
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
    mask_channels=512,
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(
        data_root=data_root,
        # Regions have 2 to 4 cells of the last map per side.
        pipeline=[dict(type="RegionPairCrop", box_px=(64, 128), num_others=3)],
    ),
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
    "optim_wrapper.optimizer.lr": [2e-3, 2e-3, 1e-3],  # this and the next three as for MoCo v2
    "model.queue_length": 512,
    "model.momentum": [0.97, 0.99, 0.99],
    "model.bn_groups": 4,
    "model.layout.image_px": [96, 96, 192],  # 6 x 6 cells in the last map
    "train_dataloader.dataset.pipeline.0.box_px": [(32, 64), (32, 64), (64, 128)],
    "model.mask_channels": [16, 16, 128],  # a quarter of the features
}
