"""Semi-supervised protocol: SGD, two steps, separate rates and clipping of backbone and head."""

max_epochs = 20
backbone_lr = 0.001
head_lr = 0.1

optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=backbone_lr, momentum=0.9, weight_decay=1e-6),
    # Longer keys win: backbones have layers such as conv_head.
    paramwise_cfg=dict(
        custom_keys={"head.": dict(lr_mult=head_lr / backbone_lr), "backbone.": dict(lr_mult=1.0)}
    ),
)
custom_hooks = [dict(type="ClipGradientsHook", modules=["backbone", "head"], max_norm=10)]
param_scheduler = [dict(type="MultiStepLR", milestones=[12, 16], gamma=0.2, by_epoch=True)]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs, val_interval=4)
