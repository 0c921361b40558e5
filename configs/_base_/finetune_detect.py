"""Base of `finetune --task detect` on a GPU: Mask R-CNN, or Faster R-CNN without masks.

The command sets classes, files, sizes and schedule.
"""

_base_ = ["./mask_rcnn_fpn.py", "./dense_runtime.py", "./finetune_schedule_adamw.py"]

# Defaults. batch_size is an upper limit, images_seen counts repeats, epochs are (least, most).
usual = dict(image_px=800, batch_size=4, images_seen=150_000, epochs=(12, 100))

scale_px = (1333, 800)  # upper limits of (long, short) side
train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="LoadAnnotations", with_bbox=True, with_mask=True),
    dict(type="RandomResize", scale=scale_px, ratio_range=(0.8, 1.25), keep_ratio=True),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackDetInputs"),
]
test_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="Resize", scale=scale_px, keep_ratio=True),
    dict(type="LoadAnnotations", with_bbox=True, with_mask=True),  # only for pictures
    dict(type="PackDetInputs"),
]
loader = dict(num_workers=2, persistent_workers=True)
train_dataloader = dict(
    sampler=dict(type="DefaultSampler", shuffle=True),
    drop_last=True,  # a last batch of one image would have poor statistics
    dataset=dict(
        type="CocoDataset",
        data_prefix=dict(img=""),
        filter_cfg=dict(filter_empty_gt=True),
        pipeline=train_pipeline,
    ),
    **loader,
)
val_dataloader = dict(
    batch_size=1,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="CocoDataset", data_prefix=dict(img=""), test_mode=True, pipeline=test_pipeline
    ),
    **loader,
)
val_evaluator = dict(type="CocoMetric", metric=["bbox", "segm"], ann_file="")
test_dataloader = val_dataloader
test_evaluator = val_evaluator
# The first process alone scores boxes and masks: 40,000 images take it 10 minutes of CPU time.
env_cfg = dict(dist_cfg=dict(timeout=3600))
default_hooks = dict(
    logger=dict(log_metric_by_epoch=True),
    checkpoint=dict(by_epoch=True),
)
log_processor = dict(by_epoch=True)
