"""SS-PRL as in the paper, ResNet-50, ImageNet-1k train without labels, 100 epochs.

    bash tools/dist_train.sh configs/ssprl/ssprl_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
Recipe: the paper gives only 100 epochs and batch 256.
ASSUMPTIONS from SwAV's published small-batch recipe: lr 0.6 -> 0.0006, 3,000 image prototypes, an
image queue of 3,840 rows over all GPUs from epoch 15, one frozen epoch.
ASSUMPTIONS from the COCO recipe: half as many patch prototypes as image prototypes, and patch
queues of 4,992 rows over all GPUs.
Paper: 63.8 mAP (COCO), 85.4 mAP (VOC07) with a linear classifier, most likely for the released form
with six small views.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
num_prototypes = 3000

model = dict(
    head=dict(
        num_prototypes=num_prototypes,
        num_patch_prototypes=num_prototypes // 2,
        queue_length=3840 // num_gpus,
        patch_queue_length=4992 // num_gpus,
        queue_start_epoch=15,
    )
)
train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root="data/imagenet/train"))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
