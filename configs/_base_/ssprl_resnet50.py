"""SS-PRL with ResNet-50 and the views of the paper: 2 x 224, 2 x 4 x 112, 2 x 9 x 96 px."""

feature_channels = 2048  # ResNet-50
embedding_channels = 128
layout = dict(
    image_px=224,
    image_area=(0.14, 1.0),
    num_small=0,
    small_px=96,
    small_area=(0.05, 0.14),
    levels=[
        dict(grid=2, resize_px=314, patch_px=112, area=(0.6, 1.0)),
        dict(grid=3, resize_px=383, patch_px=96, area=(0.6, 1.0)),
    ],
)
model = dict(
    type="SSPRL",
    layout=layout,
    data_preprocessor=dict(
        type="PyramidPreprocessor",
        flip_prob=0.5,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        jitter_prob=0.8,
        grayscale_prob=0.2,
        blur_prob=0.5,
        blur_sigma=(0.1, 2.0),
    ),
    # mmpretrain would initialise the last norms with zero. LARC does not scale parameters of zero
    # norm, so every residual branch would start dead and stay dead for long.
    backbone=dict(type="ResNet", depth=50, zero_init_residual=False),
    neck=dict(
        type="MultiHeadNeck",
        in_channels=feature_channels,
        hid_channels=2048,
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
        epsilon=0.05,
        num_iters=3,
    ),
)
train_dataloader = dict(
    drop_last=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="mmssprl.stack_views"),
    dataset=dict(type="UnlabeledImages", pipeline=[dict(type="PyramidCrop")]),  # with model.layout
)
