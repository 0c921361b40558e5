"""Semi-supervised protocol at CPU size: a higher backbone rate, one test after the last epoch."""

_base_ = "./finetune_schedule.py"

backbone_lr = 0.01

optim_wrapper = dict(
    optimizer=dict(lr=backbone_lr),
    paramwise_cfg=dict(custom_keys={"head.": dict(lr_mult=_base_.head_lr / backbone_lr)}),
)
train_cfg = dict(val_interval=_base_.max_epochs)
