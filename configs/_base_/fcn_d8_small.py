"""FCN at CPU size: three stages of a narrow ResNet-18, the last one dilated (output stride 8)."""

_base_ = ["./fcn_d8.py"]

base_channels = 16
crop_px = 96

model = dict(
    data_preprocessor=dict(size=(crop_px, crop_px)),
    backbone=dict(
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=3,
        strides=(1, 2, 1),
        dilations=(1, 1, 2),
        out_indices=(0, 1, 2),
    ),
    decode_head=dict(in_channels=4 * base_channels, in_index=2, channels=64),
    auxiliary_head=None,  # at full resolution it would cost as much as the head itself
)
