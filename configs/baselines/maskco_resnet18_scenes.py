"""MaskCo, our reading, at CPU size: a narrow ResNet-18 on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/baselines/maskco_resnet18_scenes.py

Data, network and photometrics of ssprl_resnet18_scenes.py. Views have 96 px in place of 48, 6 x 6
cells of the last map, of which a region covers 2 to 4 a side. Views show 0.14 to 1 of an image's
area as there: one range for all pre-trainings of `compare`. The learning rate is MoCo v2's, not
tuned. Hardware: one CPU core.
"""

_base_ = ["../ssprl/ssprl_resnet18_scenes.py"]

max_epochs = 6
warmup_epochs = 1
batch_size = 64
base_lr = 2e-3

layout = dict(_base_.layout, image_px=96, levels=[])
model = dict(
    _delete_=True,
    type="MaskCo",
    layout=layout,
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=_base_.model.backbone,
    neck=dict(
        in_channels=_base_.feature_channels,
        hid_channels=256,
        out_channels=_base_.embedding_channels,
    ),
    # Keys of the last 8 steps. Above half of the 1,200 images the queue would often hold the image
    # itself.
    queue_length=512,
    # The keys' network is an average over 1 / (1 - m) = 33 steps of the 108 that 6 epochs have; the
    # published 0.999 would leave it at its start.
    momentum=0.97,
    temperature=0.2,
    bn_groups=batch_size // 16,
    mask_channels=16,  # a quarter of the features
)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(pipeline=[dict(type="RegionPairCrop", box_px=(32, 64), num_others=3)]),
)
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
