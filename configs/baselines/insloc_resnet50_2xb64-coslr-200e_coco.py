"""InsLoc (arXiv:2102.08318), ResNet-50 with FPN, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/insloc_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: canvases, pasted crops, pyramid, head, queues, momentum and temperature are as in the
released FPN config (200 epochs of ImageNet). It has the photometric augmentation of MoCo v2.
ASSUMPTIONS: the form with FPN, the only one that was released. The lr of ORL and DenseCL on COCO,
0.3 at batch 256, scaled linearly to batch 128, without Nesterov, as for MoCo v2. Backgrounds are
other images of the batch.
Reported in the SS-PRL paper: 45.0 mAP (COCO), 61.8 mAP (VOC07) with a linear classifier on InsLoc's
features. InsLoc never trains the pooled features of the last stage directly.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 200
num_gpus = 2
batch_size = 64  # per GPU; x 2 GPUs = 128
base_lr = 0.3 * num_gpus * batch_size / 256
data_root = "data/coco/train2014"

layout = dict(_base_.layout, image_px=256, image_area=(0.2, 1.0), levels=[])
model = dict(
    _delete_=True,
    type="InsLoc",
    layout=layout,
    data_preprocessor=dict(
        type="PastePreprocessor",
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
    neck=dict(
        in_channels=_base_.feature_channels,
        fpn_channels=256,
        num_convs=4,
        num_fcs=2,
        hid_channels=1024,
        out_channels=128,
        sampling_ratio=-1,  # adaptive: one sample per cell of the map
    ),
    queue_length=65536,  # for each of four levels
    momentum=0.999,
    temperature=0.2,
    bn_groups=batch_size // 32,
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(data_root=data_root, pipeline=[dict(type="PasteCrop")]),
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
    # Not tuned. On scenes 2e-3 collapsed within 3 epochs, 3e-4 did not (one seed each).
    "optim_wrapper.optimizer.lr": [3e-4, 3e-4, 1.5e-4],
    "model.layout.image_px": [64, 64, 128],
    "model.neck.fpn_channels": [64, 64, 128],
    "model.neck.num_convs": 2,
    "model.neck.num_fcs": 1,
    "model.neck.hid_channels": 256,
    "model.neck.sampling_ratio": 2,
    "model.queue_length": 512,  # queue, momentum and groups as for MoCo v2
    "model.momentum": [0.97, 0.99, 0.99],
    "model.bn_groups": 4,
}
