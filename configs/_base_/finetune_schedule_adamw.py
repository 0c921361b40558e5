"""Schedule of `finetune`: AdamW, a short linear warm-up, then cosine to 0, in epochs."""

base_lr = 3e-4
random_lr = 1e-3  # for a network with random weights
frozen_lr = 3e-3  # for heads on a frozen backbone
warmup_share = 0.05  # of all steps
most_warmup_iters = 500

optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="AdamW", lr=base_lr, weight_decay=0.01),
    clip_grad=dict(max_norm=10),
)
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=1, val_interval=1)
