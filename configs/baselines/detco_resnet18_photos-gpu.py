"""DetCo at GPU size for a few thousand photographs of about 200 px: a whole ResNet-18.

    python tools/train.py configs/baselines/detco_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Data, network and photometrics of ssprl_resnet18_photos-gpu.py. Jigsaws are 3 x 3 squares of 48 px.
Image views show 0.14 to 1 of an image's area as there, not 0.2 to 1 as published: one range for all
pre-trainings of `compare`. ASSUMPTION: BatchNorm sees groups of 16 images as at CPU size, not of 32
as published. The learning rate is MoCo v2's, not tuned. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["../ssprl/ssprl_resnet18_photos-gpu.py"]

max_epochs = 20
warmup_epochs = 1
batch_size = 64
base_lr = 1e-3

layout = dict(_base_.layout, levels=[], num_small=2, small_px=168, small_area=(0.6, 1.0))
model = dict(
    _delete_=True,
    type="DetCo",
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
    level_weights=(0.1, 0.4, 0.7, 1.0),
    grid=3,
    patch_px=48,
)
train_dataloader = dict(batch_size=batch_size)
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
