"""SS-PRL at GPU size for a few thousand photographs of about 200 px: a whole ResNet-18.

    python tools/train.py configs/ssprl/ssprl_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Differs from ssprl_resnet18_photos.py: the network has four stages of the usual width and twice the
hidden units and embedding channels, views have twice the side, and the learning rate is half.
Hardware: one GPU. A step takes 57 ms on an H100; a CPU is slow. Run for 15 epochs, see
docs/results/photos_gpu, but not for all 20.
"""

_base_ = ["../_base_/ssprl_resnet18.py", "../_base_/default_runtime.py"]

feature_channels = 512
embedding_channels = 128
max_epochs = 20
batch_size = 64
base_lr = 2e-3
data_root = "data/photos/train2014"

layout = dict(
    image_px=128,
    image_area=(0.14, 1.0),
    num_small=0,
    small_px=64,
    small_area=(0.05, 0.14),
    levels=[
        dict(grid=2, resize_px=180, patch_px=64, area=(0.6, 1.0)),
        dict(grid=3, resize_px=224, patch_px=56, area=(0.6, 1.0)),
    ],
)
model = dict(
    layout=layout,
    data_preprocessor=dict(hue=0.1, grayscale_prob=0.2),
    backbone=dict(_delete_=True, type="ResNet", depth=18, zero_init_residual=True),
    neck=dict(in_channels=feature_channels, hid_channels=512, out_channels=embedding_channels),
    head=dict(in_channels=embedding_channels, num_prototypes=60, num_patch_prototypes=60),
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=4,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(data_root=data_root),
)
optim_wrapper = dict(optimizer=dict(lr=base_lr))
param_scheduler = [
    dict(
        type="CosineAnnealingLR",
        T_max=max_epochs,
        by_epoch=True,
        convert_to_iter_based=True,
    ),
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
default_hooks = dict(logger=dict(interval=10))
