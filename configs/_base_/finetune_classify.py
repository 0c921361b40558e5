"""Base of `finetune --task classify` on a GPU: backbone, average pool, one linear layer.

The command sets classes, files, sizes and schedule. With several labels per image, the loss is
sigmoid BCE and the score is mAP. With one label, the loss is softmax cross-entropy and the score is
accuracy.
"""

_base_ = [
    "./multi_label_resnet50.py",
    "./classification_runtime.py",
    "./finetune_schedule_adamw.py",
]

# Defaults. batch_size is an upper limit, images_seen counts repeats, epochs are (least, most).
usual = dict(image_px=224, batch_size=64, images_seen=100_000, epochs=(10, 100))

model = dict(
    frozen_backbone=False,
    backbone=dict(depth=18),
    # Sigmoids start at 0.12, because most classes are absent from an image.
    head=dict(in_channels=512, init_cfg=dict(bias=-2.0)),
)
loader = dict(num_workers=2, persistent_workers=True)
train_dataloader = dict(
    sampler=dict(type="DefaultSampler", shuffle=True),
    drop_last=True,  # BatchNorm needs more than one image in the last batch
    dataset=dict(pipeline=_base_.train_pipeline),
    **loader,
)
val_dataloader = dict(
    batch_size=32,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(pipeline=_base_.test_pipeline),
    **loader,
)
test_dataloader = val_dataloader
# Data set, head and metric for each kind of labels.
of_one_label = dict(
    dataset=dict(type="BaseDataset"),
    head=dict(
        type="LinearClsHead",
        loss=dict(type="CrossEntropyLoss", loss_weight=1.0),
        topk=(1,),
        init_cfg=dict(type="Normal", layer="Linear", std=0.01),
    ),
    evaluator=dict(type="Accuracy", topk=(1,)),
)
of_many_labels = dict(dataset=dict(type="MultiLabelTargetDataset"))
head_lr = _base_.frozen_lr  # a new layer needs a higher rate than trained weights
