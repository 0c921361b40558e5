"""SS-PRL (paper form) whose patches are its small views, ResNet-50, ImageNet-1k, 100 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-shared-views_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

All else as in ssprl_resnet50_8xb32-coslr-100e_in1k.py. Patches that serve the image scale as small
views are this package's own form: six of them, of 1 of 4 and 2 of 9 cells, drawn anew for each
image and step, are the patches and the small views in one. ASSUMPTION: its recipe fits this form.
Hardware: 8 GPUs x 32 images. Not run at full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
num_prototypes = 3000

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=1, is_small_view=True),  # of 4 patches
        dict(_base_.layout.levels[1], num_sampled=2, is_small_view=True),  # of 9
    ],
)
model = dict(
    layout=layout,
    head=dict(
        num_prototypes=num_prototypes,
        num_patch_prototypes=num_prototypes // 2,
        queue_length=3840 // num_gpus,
        patch_queue_length=4992 // num_gpus,
        queue_start_epoch=15,
    ),
)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(data_root="data/imagenet/train"),
)
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
