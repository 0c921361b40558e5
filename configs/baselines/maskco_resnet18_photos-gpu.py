"""MaskCo, our reading, at GPU size for a few thousand photographs of about 200 px.

    python tools/train.py configs/baselines/maskco_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Data, network and photometrics of ssprl_resnet18_photos-gpu.py. Views have 192 px in place of 128, 6
x 6 cells of the last map, of which a region covers 2 to 4 a side. Views show 0.14 to 1 of an
image's area as there: one range for all pre-trainings of `compare`. ASSUMPTION: BatchNorm sees
groups of 16 images as at CPU size, not of 32. The learning rate is MoCo v2's, not tuned.
Hardware: one GPU; a CPU is slow.
"""

_base_ = ["../ssprl/ssprl_resnet18_photos-gpu.py"]

max_epochs = 20
warmup_epochs = 1
batch_size = 64
base_lr = 1e-3

layout = dict(_base_.layout, image_px=192, levels=[])
model = dict(
    _delete_=True,
    type="MaskCo",
    layout=layout,
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=_base_.model.backbone,
    neck=dict(
        in_channels=_base_.feature_channels,
        hid_channels=512,
        out_channels=_base_.embedding_channels,
    ),
    queue_length=512,  # keys of the last 8 steps
    # The keys' network is an average over 1 / (1 - m) = 100 steps, 7 percent of 20 epochs of 70
    # steps; the published 0.999 would leave it near its start.
    momentum=0.99,
    temperature=0.2,
    bn_groups=batch_size // 16,
    mask_channels=128,  # a quarter of the features
)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(pipeline=[dict(type="RegionPairCrop", box_px=(64, 128), num_others=3)]),
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
