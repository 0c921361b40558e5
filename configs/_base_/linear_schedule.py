"""Linear multi-label protocol: SGD, clipped gradients, cosine to 0.

Differs from the released code: the cosine changes every iteration, not every epoch.
"""

max_epochs = 100

optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", momentum=0.9, weight_decay=1e-6),
    clip_grad=dict(max_norm=10),
)
param_scheduler = [
    dict(
        type="CosineAnnealingLR",
        T_max=max_epochs,
        eta_min=0,
        by_epoch=True,
        convert_to_iter_based=True,
    ),
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs, val_interval=10)
