"""Linear multi-label protocol at CPU size: few epochs, a high rate, one test at the end."""

_base_ = "./linear_schedule.py"

max_epochs = 20
lr = 1.0

optim_wrapper = dict(optimizer=dict(lr=lr))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
