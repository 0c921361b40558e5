"""The classes in each image of VOC2007: trainval -> test. Difficult objects are ignored."""

data_root = "data/VOCdevkit/VOC2007"
train_dataloader = dict(
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    dataset=dict(type="VocMultiLabel", data_root=data_root, split="trainval"),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(type="VocMultiLabel", data_root=data_root, split="test"),
)
test_dataloader = val_dataloader
