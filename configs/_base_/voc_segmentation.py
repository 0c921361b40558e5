"""VOC 2012 segmentation, train_aug -> val, mIoU. Scaled by 0.5-2, cropped, flipped, recoloured."""

scale_px = (2048, 512)  # upper limits of (long, short) side, before the random factor

val_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="Resize", scale=scale_px, keep_ratio=True),
    dict(type="LoadAnnotations"),  # after Resize, so that labels keep their size
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        type="PascalVOCDataset",
        ann_file="ImageSets/Segmentation/train_aug.txt",
        data_prefix=dict(img_path="JPEGImages", seg_map_path="SegmentationClassAug"),
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="PascalVOCDataset",
        ann_file="ImageSets/Segmentation/val.txt",
        data_prefix=dict(img_path="JPEGImages", seg_map_path="SegmentationClass"),
        pipeline=val_pipeline,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="IoUMetric", iou_metrics=["mIoU"])
test_evaluator = val_evaluator
