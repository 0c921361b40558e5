"""Pyramid distillation from a teacher's stored maps, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh configs/ssprl/distill_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: a method of this package. Each view learns the teacher's features of the view's place in the
whole image. Half of the loss is on the cells of the last map. The teacher here is torchvision's
supervised ResNet-50 (downloaded); it sees each image once.
ASSUMPTION: AdamW with lr 4e-3 for batches of 64 images and more, as measured with a narrow
ResNet-18 on 4,500 photographs.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 200
num_gpus = 2
batch_size = 64  # per GPU; x 2 GPUs = 128
base_lr = 4e-3
data_root = "data/coco/train2014"

layout = dict(_base_.layout, levels=[])
model = dict(
    _delete_=True,
    type="PyramidDistillation",
    layout=layout,
    data_preprocessor=dict(
        type="PyramidPreprocessor",
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        blur_sigma=(0.1, 1.0),
    ),
    backbone=dict(_base_.model.backbone, zero_init_residual=True),
    neck=dict(
        type="MultiHeadNeck",
        in_channels=_base_.feature_channels,
        hid_channels=2048,
        out_channels=256,  # components of the teacher's map
    ),
    dense_weight=0.5,
)
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(data_root=data_root, pipeline=[dict(type="TeacherCrop")]),
)
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
unit = dict(by_epoch=True, convert_to_iter_based=True)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=1, **unit),
    dict(type="CosineAnnealingLR", begin=1, T_max=max_epochs - 1, **unit),
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
custom_hooks = [*_base_.custom_hooks, dict(type="TeacherHook", teacher="supervised")]
# Changes at the small sizes (--size).
small = {"warmup_epochs": 1, "train_dataloader.batch_size": 64, "model.neck.out_channels": 256}
