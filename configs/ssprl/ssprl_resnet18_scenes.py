"""SS-PRL at CPU size: a narrow ResNet-18 on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --size 96
    python tools/train.py configs/ssprl/ssprl_resnet18_scenes.py

`make demo` runs it over three seeds beside random weights and SwAV; its table is in README.md.
Hardware: one CPU core. Views and network are small, and AdamW replaces LARC, which needs
thousands of steps to leave ln K. All views are turned gray, because the colours of the sample
data say nothing about its categories but are the easiest thing to agree on, and the codes are
sharper (epsilon 0.02): with 0.05 six epochs gain next to nothing.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 6
batch_size = 32
base_lr = 4e-3
data_root = "data/scenes/coco/train2014"
base_channels = 16
num_stages = 3
embedding_channels = 64

layout = dict(
    _base_.layout,
    image_px=48,
    levels=[
        dict(grid=2, resize_px=60, patch_px=24, area=(0.6, 1.0)),
        dict(grid=3, resize_px=84, patch_px=24, area=(0.6, 1.0)),
    ],
)
feature_channels = base_channels * 2 ** (num_stages - 1)
model = dict(
    layout=layout,
    data_preprocessor=dict(
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.0,
        grayscale_prob=1.0,
        blur_sigma=(0.1, 1.0),
    ),
    backbone=dict(
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=num_stages,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(num_stages - 1,),
        zero_init_residual=True,  # AdamW, unlike LARC, gets away from zero and gains by it
    ),
    neck=dict(in_channels=feature_channels, hid_channels=256, out_channels=embedding_channels),
    head=dict(
        in_channels=embedding_channels,
        num_prototypes=30,
        num_patch_prototypes=30,
        epsilon=0.02,
    ),
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=0,
    dataset=dict(data_root=data_root, pipeline=[dict(type="PyramidCrop", layout=layout)]),
)
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
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
