"""FCN, ResNet-50 with output stride 8, VOC12 train_aug -> val, 20k iterations.

    bash tools/dist_train.sh \
        configs/benchmarks/segmentation/fcn_resnet50-d8_2xb8-20k_voc12aug-512x512.py 2 \
        --weights backbone.pth

Data: data/VOCdevkit/VOC2012 with SegmentationClassAug and its list train_aug.txt, see docs/data.md
(10,582 training, 1,449 validation images).
Paper (an unpublished table), mIoU after pre-training on COCO / ImageNet: random 40.7; SS-PRL
62.4/60.4; DenseCL 63.2/69.0.
Hardware: 2 GPUs x 8 images. Not run at full scale, so wall time, memory and mIoU are unknown.
"""

_base_ = [
    "../../_base_/fcn_d8.py",
    "../../_base_/voc_segmentation.py",
    "../../_base_/dense_runtime.py",
]

weights = "random"  # or "supervised" or a backbone file, set by --weights
data_root = "data/VOCdevkit/VOC2012"
num_gpus = 2
batch_size = 8  # per GPU
base_lr = 0.01  # for num_gpus x batch_size = 16 images; released: 0.05
max_iters = 20_000
val_interval_iters = 5000
crop_size = (_base_.crop_px, _base_.crop_px)

train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=_base_.scale_px, ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type="RandomCrop", crop_size=crop_size, cat_max_ratio=0.75),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PhotoMetricDistortion"),
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    batch_size=batch_size, dataset=dict(data_root=data_root, pipeline=train_pipeline)
)
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=base_lr, momentum=0.9, weight_decay=5e-4),
)
param_scheduler = [
    dict(type="PolyLR", power=0.9, eta_min=1e-4, by_epoch=False, begin=0, end=max_iters)
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=val_interval_iters)
env_cfg = dict(cudnn_benchmark=True)  # every crop has the same size
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
