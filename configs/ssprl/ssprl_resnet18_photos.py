"""SS-PRL at CPU size for a few thousand photographs of about 200 px: a narrow ResNet-18.

    python tools/train.py configs/ssprl/ssprl_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Hardware: one CPU core. 20 epochs of 4,500 photographs took 7 to 10 minutes of CPU time.
"""

_base_ = ["../_base_/ssprl_resnet18.py", "../_base_/default_runtime.py"]

max_epochs = 20
batch_size = 64
base_lr = 4e-3
data_root = "data/photos/train2014"

layout = dict(
    image_px=64,
    image_area=(0.14, 1.0),
    num_small=0,
    small_px=32,
    small_area=(0.05, 0.14),
    levels=[
        dict(grid=2, resize_px=90, patch_px=32, area=(0.6, 1.0)),
        dict(grid=3, resize_px=112, patch_px=28, area=(0.6, 1.0)),
    ],
)
model = dict(
    layout=layout,
    data_preprocessor=dict(hue=0.1, grayscale_prob=0.2),
    head=dict(num_prototypes=60, num_patch_prototypes=60),
)
train_dataloader = dict(
    batch_size=batch_size,
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
