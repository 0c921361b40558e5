"""The categories in each image of COCO: train2014 -> val2014, 80 classes."""

data_root = "data/coco"
train_dataloader = dict(
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    dataset=dict(
        type="CocoMultiLabel",
        data_root=data_root,
        ann_file="annotations/instances_train2014.json",
        data_prefix="train2014/",
    ),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="CocoMultiLabel",
        data_root=data_root,
        ann_file="annotations/instances_val2014.json",
        data_prefix="val2014/",
    ),
)
test_dataloader = val_dataloader
