"""InsLoc at CPU size for a few thousand photographs of about 200 px: a narrow ResNet-18.

    python tools/train.py configs/baselines/insloc_resnet18_photos.py \\
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Data, network and photometrics of ssprl_resnet18_photos.py. Canvases have the 64 px of image views;
a crop is pasted at 32 to 63 px. Crops show 0.14 to 1 of an image's area as there, not 0.2 to 1 as
published: one range for all pre-trainings of `compare`. The learning rate is not tuned.
Hardware: one CPU core.
"""

_base_ = ["../ssprl/ssprl_resnet18_photos.py"]

max_epochs = 20
warmup_epochs = 1
batch_size = 64
base_lr = 3e-4  # on scenes 2e-3 collapsed within 3 epochs, 3e-4 did not (one seed each)

layout = dict(_base_.layout, levels=[])
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
    queue_length=512,  # of each level: keys of the last 8 steps
    # The keys' network is an average over 1 / (1 - m) = 100 steps, 7 percent of 20 epochs of 70
    # steps; the published 0.999 would leave it near its start.
    momentum=0.99,
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
