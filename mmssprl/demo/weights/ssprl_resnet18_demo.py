"""What commands read of configs/ssprl/ssprl_resnet18_scenes.py for the weights beside this file."""

model = dict(
    layout=dict(
        image_px=48,
        image_area=(0.14, 1.0),
        num_small=0,
        small_px=24,
        small_area=(0.05, 0.14),
        levels=[
            dict(grid=2, resize_px=60, patch_px=24, area=(0.6, 1.0)),
            dict(grid=3, resize_px=84, patch_px=24, area=(0.6, 1.0)),
        ],
    ),
    backbone=dict(
        type="ResNet",
        depth=18,
        stem_channels=16,
        base_channels=16,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        zero_init_residual=True,
    ),
)
