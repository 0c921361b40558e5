"""SwAV (arXiv:2006.09882) without small views, ResNet-50, ImageNet-1k, 100 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-image-only_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
Recipe: SwAV's published recipe for small batches: lr 0.6 -> 0.0006 at batch 256, 3,000 prototypes,
frozen for one epoch, and a queue of 3,840 rows over all GPUs from epoch 15.
ASSUMPTION: the same recipe without small views and for 100 epochs.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256

layout = dict(_base_.layout, levels=[])
model = dict(
    layout=layout,
    head=dict(num_prototypes=3000, queue_length=3840 // num_gpus, queue_start_epoch=15),
)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(data_root="data/imagenet/train"),
)
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
