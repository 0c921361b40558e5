"""InsLoc at CPU size: a narrow ResNet-18 on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/baselines/insloc_resnet18_scenes.py

Data, network and photometrics of ssprl_resnet18_scenes.py. Canvases have 64 px, where image views
have 48 px: a crop is pasted at 32 to 63 px. Crops show 0.14 to 1 of an image's area as there, not
0.2 to 1 as published: one range for all pre-trainings of `compare`. The learning rate is not tuned.
Hardware: one CPU core.
"""

_base_ = ["../ssprl/ssprl_resnet18_scenes.py"]

max_epochs = 6
warmup_epochs = 1
batch_size = 64
base_lr = 3e-4  # on scenes 2e-3 collapsed within 3 epochs, 3e-4 did not (one seed each)

layout = dict(_base_.layout, image_px=64, levels=[])
model = dict(
    _delete_=True,
    type="InsLoc",
    layout=layout,
    data_preprocessor=dict(_base_.model.data_preprocessor, type="PastePreprocessor"),
    backbone=_base_.model.backbone,
    neck=dict(
        in_channels=_base_.feature_channels,
        fpn_channels=64,
        num_convs=2,
        num_fcs=1,
        hid_channels=256,
        out_channels=_base_.embedding_channels,
        sampling_ratio=2,
    ),
    # Of each level: keys of the last 8 steps. Above half of the 1,200 images a queue would often
    # hold the image itself.
    queue_length=512,
    # The keys' network is an average over 1 / (1 - m) = 33 steps of the 108 that 6 epochs have; the
    # published 0.999 would leave it at its start.
    momentum=0.97,
    temperature=0.2,
    bn_groups=batch_size // 16,
)
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=[dict(type="PasteCrop")]))
optim_wrapper = dict(optimizer=dict(lr=base_lr))
param_scheduler = [
    dict(
        type="LinearLR",
        start_factor=0.01,
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
train_cfg = dict(max_epochs=max_epochs)
sync_bn = None  # one group of all images would give the keys away
