"""Mask R-CNN at CPU size: three stages of a narrow ResNet-18, one square anchor per place."""

_base_ = ["./mask_rcnn_fpn.py"]

base_channels = 16
stage_channels = [base_channels, 2 * base_channels, 4 * base_channels]
num_stages = len(stage_channels)
fpn_channels = 32
head_channels = 128  # of the fully connected layer
strides = [4, 8, 16]
finest_scale_px = 20  # regions from twice this size on are read from the second level
box_roi_px = 7
mask_roi_px = 7
mask_px = 2 * mask_roi_px

model = dict(
    backbone=dict(
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=num_stages,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(0, 1, 2),
    ),
    neck=dict(in_channels=stage_channels, out_channels=fpn_channels, num_outs=len(strides)),
    rpn_head=dict(
        in_channels=fpn_channels,
        feat_channels=fpn_channels,
        anchor_generator=dict(scales=[4], ratios=[1.0], strides=strides),
    ),
    roi_head=dict(
        bbox_roi_extractor=dict(
            roi_layer=dict(output_size=box_roi_px),
            out_channels=fpn_channels,
            featmap_strides=strides,
            finest_scale=finest_scale_px,
        ),
        bbox_head=dict(
            in_channels=fpn_channels,
            conv_out_channels=fpn_channels,
            fc_out_channels=head_channels,
            roi_feat_size=box_roi_px,
        ),
        mask_roi_extractor=dict(
            roi_layer=dict(output_size=mask_roi_px),
            out_channels=fpn_channels,
            featmap_strides=strides,
            finest_scale=finest_scale_px,
        ),
        mask_head=dict(num_convs=2, in_channels=fpn_channels, conv_out_channels=fpn_channels),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=64)),
        rpn_proposal=dict(nms_pre=200, max_per_img=100),
        # Half objects, or the few regions of a batch would hardly show a category twice.
        rcnn=dict(sampler=dict(num=16, pos_fraction=0.5), mask_size=mask_px),
    ),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=50),
        rcnn=dict(max_per_img=20),
    ),
)
