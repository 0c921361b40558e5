"""MaskCo (arXiv:2108.07954), our reading, ResNet-50, ImageNet-1k train, no labels, 100 epochs.

    bash tools/dist_train.sh configs/baselines/maskco_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
ASSUMPTIONS: the settings of MoCo v2 on ImageNet, and otherwise the settings of
maskco_resnet50_2xb64-coslr-200e_coco.py.
Reported in the SS-PRL paper: 50.3 mAP (COCO), 75.1 mAP (VOC07) with a linear classifier on MaskCo's
features.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./maskco_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
base_lr = 0.03 * num_gpus * batch_size / 256

model = dict(bn_groups=batch_size // 32)
train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root="data/imagenet/train"))
optim_wrapper = dict(optimizer=dict(lr=base_lr))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
