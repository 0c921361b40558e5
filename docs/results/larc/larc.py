"""The published recipe on photographs, at CPU size: LARC, epsilon 0.05, full jitter, queues.

    python tools/train.py docs/results/larc/larc.py --cfg-options \
        train_dataloader.dataset.data_root=PHOTOS/train2014 custom_hooks.2.data=PHOTOS

SS-PRL with six small views and sampled patches, the network and views of
ssprl-small-views-sampled_resnet18_photos.py. Hardware: one CPU core, about 25 s an epoch.
"""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_photos.py"]

max_epochs = 160
steps_per_epoch = 4500 // 64
base_lr = 0.6 * 64 / 128
model = dict(
    data_preprocessor=dict(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2),
    backbone=dict(zero_init_residual=False),
    head=dict(
        epsilon=0.05,
        queue_length=346,  # (128 + 1,920) x 60 / 300 - 64: as many rows per prototype as on COCO
        patch_queue_length=[2073, 2265],  # (4 x 128 + 4,992) x 60 / 150 - 2 x 64, and so on
        queue_start_epoch=max_epochs * 2 // 5,
        freeze_iters=max_epochs * steps_per_epoch // 100,
    ),
)
optim_wrapper = dict(
    optimizer=dict(
        _delete_=True,
        type="LARC",
        lr=base_lr,
        momentum=0.9,
        weight_decay=1e-6,
        trust_coefficient=0.001,
    )
)
param_scheduler = [
    dict(
        type="CosineAnnealingLR",
        T_max=max_epochs,
        eta_min=base_lr / 1000,
        by_epoch=True,
        convert_to_iter_based=True,
    )
]
train_cfg = dict(max_epochs=max_epochs)
custom_hooks = [
    dict(type="PretrainHook"),
    dict(type="MonitorHook"),
    dict(type="ProbeHook", data="data/photos", interval=20),
]
