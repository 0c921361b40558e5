"""A linear protocol of seconds."""

from helpers.features.probe_folders import write_coco

CONFIG = """
default_scope = "mmssprl"
weights = "random"
model = dict(
    type="MultiLabelClassifier",
    frozen_backbone=True,
    backbone=dict(
        type="ResNet", depth=18, stem_channels=8, base_channels=8, num_stages=2,
        strides=(1, 2), dilations=(1, 1), out_indices=(1,),
    ),
    head=dict(
        type="MultiLabelLinearClsHead", num_classes=2, in_channels=16,
        loss=dict(type="MultiLabelLoss"),
    ),
)
pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="Resize", scale=(32, 32)),
    dict(type="PackInputs"),
]
train_dataloader, val_dataloader = (
    dict(
        batch_size=8,
        num_workers=0,
        sampler=dict(type="DefaultSampler", shuffle=split == "train"),
        dataset=dict(
            type="CocoMultiLabel", data_root="coco", pipeline=pipeline,
            ann_file=f"annotations/instances_{split}2014.json", data_prefix=f"{split}2014/",
        ),
    )
    for split in ("train", "val")
)
test_dataloader = val_dataloader
val_evaluator = dict(type="MultiLabelMAP")
test_evaluator = val_evaluator
val_cfg = dict()
test_cfg = dict()
train_cfg = dict(by_epoch=True, max_epochs=1)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=0.1))
work_dir = "run"
"""


def write_linear(folder):
    """Write the config and the small images that it trains on; return the config's path."""
    write_coco(folder)
    (folder / "linear.py").write_text(CONFIG)
    return folder / "linear.py"
