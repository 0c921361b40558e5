"""SS-PRL as in the authors' released code, ResNet-50, ImageNet-1k train without labels, 100 epochs.

    bash tools/dist_train.sh configs/ssprl/ssprl-released_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

Data: data/imagenet/train (1.28 M images).
Recipe: as in ssprl_resnet50_8xb32-coslr-100e_in1k.py, including its assumptions.
ASSUMPTION: views and head are as in the script that was released for COCO. It has six 96 px small
views, g_s reads the mean raw scores, each pyramid predicts both image codes, and red is divided by
0.228.
Paper, most likely for this form: 63.8 mAP (COCO), 85.4 mAP (VOC07) with a linear classifier.
Hardware: 8 GPUs x 32 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
num_prototypes = 3000

layout = dict(_base_.layout, num_small=6)
model = dict(
    layout=layout,
    data_preprocessor=dict(std=(0.228 * 255, 0.224 * 255, 0.225 * 255)),
    head=dict(
        variant="released",
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
