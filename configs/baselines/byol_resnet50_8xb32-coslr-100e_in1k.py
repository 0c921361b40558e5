"""BYOL (arXiv:2006.07733), ResNet-50, ImageNet-1k train without labels, 100 epochs.

    bash tools/dist_train.sh configs/baselines/byol_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
Recipe: the published preset for 100 epochs. LARS with lr 0.45 per 256 images, 10 warm-up epochs,
weight decay 1e-6, and plain SGD for biases and norms.
ASSUMPTIONS: LARC replaces LARS. The batch is 256, as in the SS-PRL paper, instead of the published
4,096.
Reported in the SS-PRL paper: 58.4 mAP (COCO), 80.2 mAP (VOC07) with a linear classifier on BYOL's
features.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./byol_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
warmup_epochs = 10
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
base_lr = 0.45 * num_gpus * batch_size / 256

train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root="data/imagenet/train"))
optim_wrapper = dict(
    optimizer=dict(
        _delete_=True,
        type="LARC",
        lr=base_lr,
        momentum=0.9,
        weight_decay=1e-6,
        trust_coefficient=0.001,
        exclude_bias_and_norm=True,
    )
)
param_scheduler = [
    dict(_base_.param_scheduler[0], end=warmup_epochs),
    dict(_base_.param_scheduler[1], T_max=max_epochs - warmup_epochs, begin=warmup_epochs),
]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
