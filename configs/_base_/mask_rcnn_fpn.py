"""Mask R-CNN on a ResNet-50 with a feature pyramid: nothing frozen, SyncBN everywhere.

By default mmdet freezes the stem, the first stage and all batch statistics. That suits supervised
weights but makes self-supervised ones worse. Pyramid and heads are normalised, too.
"""

default_scope = "mmdet"
norm_cfg = dict(type="SyncBN", requires_grad=True)
num_classes = 80
fpn_channels = 256
roi_strides = [4, 8, 16, 32]  # levels that regions use
rpn_strides = [*roi_strides, 64]  # the RPN also uses the last level, pooled once more

model = dict(
    type="MaskRCNN",
    data_preprocessor=dict(
        type="DetDataPreprocessor",
        mean=[123.675, 116.28, 103.53],  # ImageNet, RGB
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_mask=True,
        pad_size_divisor=32,
    ),
    backbone=dict(
        type="ResNet",
        depth=50,
        frozen_stages=-1,
        norm_cfg=norm_cfg,
        norm_eval=False,
        style="pytorch",
    ),
    neck=dict(
        type="FPN",
        in_channels=[256, 512, 1024, 2048],
        out_channels=fpn_channels,
        num_outs=len(rpn_strides),
        norm_cfg=norm_cfg,
    ),
    rpn_head=dict(
        type="RPNHead",
        in_channels=fpn_channels,
        feat_channels=fpn_channels,
        anchor_generator=dict(
            type="AnchorGenerator", scales=[8], ratios=[0.5, 1.0, 2.0], strides=rpn_strides
        ),
        bbox_coder=dict(
            type="DeltaXYWHBBoxCoder", target_means=[0.0] * 4, target_stds=[1.0, 1.0, 1.0, 1.0]
        ),
        loss_cls=dict(type="CrossEntropyLoss", use_sigmoid=True, loss_weight=1.0),
        loss_bbox=dict(type="L1Loss", loss_weight=1.0),
    ),
    roi_head=dict(
        type="StandardRoIHead",
        bbox_roi_extractor=dict(
            type="SingleRoIExtractor",
            roi_layer=dict(type="RoIAlign", output_size=7, sampling_ratio=0),
            out_channels=fpn_channels,
            featmap_strides=roi_strides,
        ),
        bbox_head=dict(
            type="Shared4Conv1FCBBoxHead",
            in_channels=fpn_channels,
            conv_out_channels=fpn_channels,
            fc_out_channels=1024,
            roi_feat_size=7,
            num_classes=num_classes,
            norm_cfg=norm_cfg,
            reg_class_agnostic=False,
            bbox_coder=dict(
                type="DeltaXYWHBBoxCoder",
                target_means=[0.0] * 4,
                target_stds=[0.1, 0.1, 0.2, 0.2],
            ),
            loss_cls=dict(type="CrossEntropyLoss", use_sigmoid=False, loss_weight=1.0),
            loss_bbox=dict(type="L1Loss", loss_weight=1.0),
        ),
        mask_roi_extractor=dict(
            type="SingleRoIExtractor",
            roi_layer=dict(type="RoIAlign", output_size=14, sampling_ratio=0),
            out_channels=fpn_channels,
            featmap_strides=roi_strides,
        ),
        mask_head=dict(
            type="FCNMaskHead",
            num_convs=4,
            in_channels=fpn_channels,
            conv_out_channels=fpn_channels,
            num_classes=num_classes,
            norm_cfg=norm_cfg,
            loss_mask=dict(type="CrossEntropyLoss", use_mask=True, loss_weight=1.0),
        ),
    ),
    train_cfg=dict(
        rpn=dict(
            assigner=dict(
                type="MaxIoUAssigner",
                pos_iou_thr=0.7,
                neg_iou_thr=0.3,
                min_pos_iou=0.3,
                match_low_quality=True,
                ignore_iof_thr=-1,
            ),
            sampler=dict(
                type="RandomSampler",
                num=256,
                pos_fraction=0.5,
                neg_pos_ub=-1,
                add_gt_as_proposals=False,
            ),
            allowed_border=-1,
            pos_weight=-1,
            debug=False,
        ),
        rpn_proposal=dict(
            nms_pre=2000,
            max_per_img=1000,
            nms=dict(type="nms", iou_threshold=0.7),
            min_bbox_size=0,
        ),
        rcnn=dict(
            assigner=dict(
                type="MaxIoUAssigner",
                pos_iou_thr=0.5,
                neg_iou_thr=0.5,
                min_pos_iou=0.5,
                match_low_quality=True,
                ignore_iof_thr=-1,
            ),
            sampler=dict(
                type="RandomSampler",
                num=512,
                pos_fraction=0.25,
                neg_pos_ub=-1,
                add_gt_as_proposals=True,
            ),
            mask_size=28,
            pos_weight=-1,
            debug=False,
        ),
    ),
    test_cfg=dict(
        rpn=dict(
            nms_pre=1000,
            max_per_img=1000,
            nms=dict(type="nms", iou_threshold=0.7),
            min_bbox_size=0,
        ),
        rcnn=dict(
            score_thr=0.05,
            nms=dict(type="nms", iou_threshold=0.5),
            max_per_img=100,
            mask_thr_binary=0.5,
        ),
    ),
)
