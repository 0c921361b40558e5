"""COCO 2014 boxes and masks, AP of both. The short side is 640-800 in training, 800 in tests."""

long_side_px = 1333
test_short_side_px = 800
train_short_sides_px = [640, 672, 704, 736, 768, test_short_side_px]

train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="LoadAnnotations", with_bbox=True, with_mask=True),
    dict(
        type="RandomChoiceResize",
        scales=[(long_side_px, short_side) for short_side in train_short_sides_px],
        keep_ratio=True,
    ),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackDetInputs"),
]
val_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="Resize", scale=(long_side_px, test_short_side_px), keep_ratio=True),
    dict(type="PackDetInputs"),  # no annotations, because the metric reads the file itself
]
train_dataloader = dict(
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    batch_sampler=dict(type="AspectRatioBatchSampler"),
    dataset=dict(
        type="CocoDataset",
        ann_file="annotations/instances_train2014.json",
        data_prefix=dict(img="train2014/"),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=train_pipeline,
    ),
)
val_ann_file = "annotations/instances_val2014.json"
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="CocoDataset",
        ann_file=val_ann_file,
        data_prefix=dict(img="val2014/"),
        test_mode=True,
        pipeline=val_pipeline,
    ),
)
val_evaluator = dict(type="CocoMetric", metric=["bbox", "segm"])
test_dataloader = val_dataloader
test_evaluator = val_evaluator
