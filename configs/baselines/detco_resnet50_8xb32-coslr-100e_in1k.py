"""DetCo (arXiv:2102.04803), ResNet-50, ImageNet-1k train without labels, 100 epochs.

    bash tools/dist_train.sh configs/baselines/detco_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images). Hardware: 8 GPUs x 32 images. The published settings for
200 epochs. ASSUMPTION: the same for 100 epochs, which the SS-PRL paper names, and as in the config
for COCO. It gives 60.0 mAP (COCO), 81.3 mAP (VOC07) with a linear classifier on DetCo's features.
Not run at full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
base_lr = 0.03 * num_gpus * batch_size / 256

layout = dict(_base_.layout, num_small=2, small_px=255, small_area=(0.6, 1.0))
model = dict(
    type="DetCo",
    layout=layout,
    level_weights=(0.1, 0.4, 0.7, 1.0),
    grid=3,
    patch_px=64,
    bn_groups=batch_size // 32,
)
train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root="data/imagenet/train"))
optim_wrapper = dict(optimizer=dict(lr=base_lr))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
