"""What `finetune --task classify` begins with on a GPU: backbone, average pool, one linear layer.

The command puts in classes, files, sizes and schedule; of several labels per image the loss is a
sigmoid's and the score mAP, of one label a softmax's and accuracy.
"""

_base_ = [
    "./multi_label_resnet50.py",
    "./classification_runtime.py",
    "./finetune_schedule_adamw.py",
]

# Where nothing is asked for. batch_size is the most, images_seen counts repeats, epochs are the
# least and the most.
usual = dict(image_px=224, batch_size=64, images_seen=100_000, epochs=(10, 100))

model = dict(
    frozen_backbone=False,
    backbone=dict(depth=18),
    # Most of many classes are absent from an image: sigmoids begin at 0.12.
    head=dict(in_channels=512, init_cfg=dict(bias=-2.0)),
)
loader = dict(num_workers=2, persistent_workers=True)
train_dataloader = dict(
    sampler=dict(type="DefaultSampler", shuffle=True),
    drop_last=True,  # a last batch of one image would have no statistics
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
# Fields of a data set and parts of a model, for the two kinds of labels.
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
of_many_labels = dict(dataset=dict(type="CocoMultiLabel"))
head_lr = _base_.frozen_lr  # a new layer learns too little at the rate of trained weights
