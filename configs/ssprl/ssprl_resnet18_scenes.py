"""SS-PRL at CPU size: a narrow ResNet-18 on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/ssprl/ssprl_resnet18_scenes.py

`make demo` compares this with SwAV for equal time, after one epoch of warm-up. Views and network
are small. AdamW replaces LARC, which needs thousands of steps to leave ln K. All views are gray:
the colours of the sample data are the easiest feature to agree on, but they are unrelated to its
categories.
Hardware: one CPU core.
"""

_base_ = ["../_base_/ssprl_resnet18.py", "../_base_/default_runtime.py"]

max_epochs = 6
batch_size = 32
base_lr = 4e-3
data_root = "data/scenes/coco/train2014"

layout = dict(
    image_px=48,
    image_area=(0.14, 1.0),
    num_small=0,
    small_px=24,
    small_area=(0.05, 0.14),
    levels=[
        dict(grid=2, resize_px=60, patch_px=24, area=(0.6, 1.0)),
        dict(grid=3, resize_px=84, patch_px=24, area=(0.6, 1.0)),
    ],
)
model = dict(
    layout=layout,
    data_preprocessor=dict(hue=0.0, grayscale_prob=1.0),
    head=dict(num_prototypes=30, num_patch_prototypes=30),
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
