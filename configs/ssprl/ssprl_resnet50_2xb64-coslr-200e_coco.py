"""SS-PRL as in the paper (Eq. 1-4), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: optimiser, prototypes, queues and freezing are as in the released recipe.
Paper: 61.3 mAP (COCO), 80.5 mAP (VOC07) with a linear classifier. These are most likely scores of
the released form with six small views: its script has them, and the paper's ablation without
patches has the same 79.2 mAP as its SwAV.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["../_base_/ssprl_resnet50.py", "../_base_/default_runtime.py"]

max_epochs = 200
num_gpus = 2
batch_size = 64  # per GPU; x 2 GPUs = 128
base_lr = 0.6
data_root = "data/coco/train2014"

train_dataloader = dict(
    batch_size=batch_size,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    dataset=dict(data_root=data_root),
)
model = dict(
    head=dict(
        num_prototypes=300,
        num_patch_prototypes=150,
        queue_length=1920 // num_gpus,  # per GPU; released: 1,920 and 4,992 rows in total
        patch_queue_length=4992 // num_gpus,
        queue_start_epoch=80,
        freeze_epochs=1,
    )
)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(
        type="LARC", lr=base_lr, momentum=0.9, weight_decay=1e-6, trust_coefficient=0.001
    ),
)
param_scheduler = [
    dict(
        type="CosineAnnealingLR",
        T_max=max_epochs,
        eta_min=base_lr / 1000,
        by_epoch=True,
        convert_to_iter_based=True,
    )
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
