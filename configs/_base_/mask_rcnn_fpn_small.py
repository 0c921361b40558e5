"""Mask R-CNN at CPU size: three stages of a narrow ResNet-18, one square anchor per position.

Sizes and schedule are for the embedded sample data. AdamW replaces SGD, as in pre-training at this
size. The training process loads the data, without workers.
"""

_base_ = ["./mask_rcnn_fpn.py", "./coco_instance.py", "./dense_runtime.py"]

weights = "random"  # or a backbone file, set by --weights
scale_px = (96, 96)  # upper limits of (long, short) side
batch_size = 8
base_lr = 3e-3
max_iters = 600
warmup_iters = 50
base_channels = 16
stage_channels = [base_channels, 2 * base_channels, 4 * base_channels]
num_stages = len(stage_channels)
fpn_channels = 32
head_channels = 128  # in the fully connected layer
strides = [4, 8, 16]
finest_scale_px = 20  # regions of at least twice this size use the second level
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
        # Half are objects. With fewer, a batch would rarely contain a category twice.
        rcnn=dict(sampler=dict(num=16, pos_fraction=0.5), mask_size=mask_px),
    ),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=50),
        rcnn=dict(max_per_img=20),
    ),
)
resize = dict(type="Resize", scale=scale_px, keep_ratio=True)
train_pipeline = _base_.train_pipeline
train_pipeline[2] = resize
val_pipeline = _base_.val_pipeline
val_pipeline[1] = resize
in_process = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=train_pipeline), **in_process)
val_dataloader = dict(dataset=dict(pipeline=val_pipeline), **in_process)
test_dataloader = val_dataloader
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, by_epoch=False, begin=0, end=warmup_iters),
    dict(
        type="CosineAnnealingLR",
        T_max=max_iters - warmup_iters,
        by_epoch=False,
        begin=warmup_iters,
        end=max_iters,
    ),
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=max_iters)
default_hooks = dict(logger=dict(interval=10), checkpoint=dict(interval=max_iters))
