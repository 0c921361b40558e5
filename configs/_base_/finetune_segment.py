"""Base of `finetune --task segment` on a GPU: FCN with output stride 8.

The command sets classes, files, sizes and schedule.
"""

_base_ = ["./fcn_d8.py", "./dense_runtime.py", "./finetune_schedule_adamw.py"]

# Defaults. batch_size is an upper limit, images_seen counts repeats, epochs are (least, most).
usual = dict(image_px=512, batch_size=8, images_seen=150_000, epochs=(12, 100))

known = dict(loss_decode=dict(avg_non_ignore=True))  # ignores pixels of 255
model = dict(decode_head=known, auxiliary_head=known)
crop_size = (512, 512)
scale_px = (2048, 512)  # upper limits of (long, short) side, before the random factor
train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="mmssprl.LoadLabelMap"),
    dict(type="RandomResize", scale=scale_px, ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type="RandomCrop", crop_size=crop_size, cat_max_ratio=0.75),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PhotoMetricDistortion"),
    dict(type="PackSegInputs"),
]
test_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="Resize", scale=scale_px, keep_ratio=True),
    dict(type="mmssprl.LoadLabelMap"),  # after Resize, so that labels keep their size
    dict(type="PackSegInputs"),
]
prefixes = dict(img_path="", seg_map_path="")
loader = dict(num_workers=2, persistent_workers=True)
train_dataloader = dict(
    sampler=dict(type="DefaultSampler", shuffle=True),
    drop_last=True,  # a last batch of one image would have poor statistics
    dataset=dict(type="mmpretrain.BaseDataset", data_prefix=prefixes, pipeline=train_pipeline),
    **loader,
)
val_dataloader = dict(
    batch_size=1,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(type="mmpretrain.BaseDataset", data_prefix=prefixes, pipeline=test_pipeline),
    **loader,
)
val_evaluator = dict(type="mmssprl.PixelIoU")
test_dataloader = val_dataloader
test_evaluator = val_evaluator
default_hooks = dict(
    logger=dict(log_metric_by_epoch=True),
    checkpoint=dict(by_epoch=True),
)
log_processor = dict(by_epoch=True)
