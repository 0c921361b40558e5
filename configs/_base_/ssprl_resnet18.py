"""SS-PRL with a narrow ResNet-18 of three stages and AdamW, for small images on a CPU.

Configs based on this one set layout, prototypes, data and schedule.
"""

base_channels = 16
num_stages = 3
feature_channels = base_channels * 2 ** (num_stages - 1)
embedding_channels = 64
model = dict(
    type="SSPRL",
    data_preprocessor=dict(
        type="PyramidPreprocessor",
        flip_prob=0.5,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        jitter_prob=0.8,
        blur_prob=0.5,
        blur_sigma=(0.1, 1.0),
    ),
    backbone=dict(
        type="ResNet",
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=num_stages,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(num_stages - 1,),
        zero_init_residual=True,  # helps AdamW; LARC could not leave zero
    ),
    neck=dict(
        type="MultiHeadNeck",
        in_channels=feature_channels,
        hid_channels=256,
        out_channels=embedding_channels,
    ),
    head=dict(
        type="SinkhornHead",
        variant="paper",
        in_channels=embedding_channels,
        alpha=0.25,
        beta=0.25,
        cross_weight=1.0,
        temperature=0.1,
        # Sharper codes than with the paper's 0.05, which gains almost nothing in six epochs.
        epsilon=0.02,
        num_iters=3,
    ),
)
train_dataloader = dict(
    num_workers=0,
    drop_last=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="mmssprl.stack_views"),
    dataset=dict(type="UnlabeledImages", pipeline=[dict(type="PyramidCrop")]),  # with model.layout
)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="AdamW", weight_decay=1e-4))
