"""FCN on a ResNet-50 with output stride 8: the last two stages are dilated, not strided."""

default_scope = "mmseg"
norm_cfg = dict(type="SyncBN", requires_grad=True)
num_classes = 21
crop_px = 512

model = dict(
    type="EncoderDecoder",
    data_preprocessor=dict(
        type="SegDataPreProcessor",
        mean=[123.675, 116.28, 103.53],  # ImageNet, RGB
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_val=0,
        seg_pad_val=255,
        size=(crop_px, crop_px),
    ),
    backbone=dict(
        type="ResNet",  # ResNetV1c's stem would not load pre-trained weights
        depth=50,
        strides=(1, 2, 1, 1),
        dilations=(1, 1, 2, 4),
        contract_dilation=True,
        frozen_stages=-1,
        norm_cfg=norm_cfg,
        norm_eval=False,
        style="pytorch",
    ),
    decode_head=dict(
        type="FCNHead",
        in_channels=2048,
        in_index=3,
        channels=512,
        num_convs=2,
        concat_input=True,
        dropout_ratio=0.1,
        num_classes=num_classes,
        norm_cfg=norm_cfg,
        align_corners=False,
        loss_decode=dict(type="CrossEntropyLoss", use_sigmoid=False, loss_weight=1.0),
    ),
    auxiliary_head=dict(
        type="FCNHead",
        in_channels=1024,
        in_index=2,
        channels=256,
        num_convs=1,
        concat_input=False,
        dropout_ratio=0.1,
        num_classes=num_classes,
        norm_cfg=norm_cfg,
        align_corners=False,
        loss_decode=dict(type="CrossEntropyLoss", use_sigmoid=False, loss_weight=0.4),
    ),
    train_cfg=dict(),
    test_cfg=dict(mode="whole"),
)
