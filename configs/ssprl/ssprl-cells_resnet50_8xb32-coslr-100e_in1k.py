"""SS-PRL with cells of the image views as patches, ResNet-50, ImageNet-1k, 100 epochs.

    bash tools/dist_train.sh configs/ssprl/ssprl-cells_resnet50_8xb32-coslr-100e_in1k.py 8 --amp

All else as in ssprl_resnet50_8xb32-coslr-100e_in1k.py. This package's own form, not the paper's:
the views are SwAV's, and the patches of a scale are the places of the three larger or the three
smaller small views in the feature maps of the image views. ASSUMPTION: its recipe fits this form;
about half of the rows of its patch queues are no pairs. Hardware: 8 GPUs x 32 images. Not run at
full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

max_epochs = 100
num_gpus = 8
batch_size = 32  # per GPU; x 8 GPUs = 256
num_prototypes = 3000

layout = dict(_base_.layout, levels=[], num_small=6, cells=[3, 3])
model = dict(
    type="SSPRLCells",
    layout=layout,
    head=dict(
        type="CellHead",
        num_prototypes=num_prototypes,
        num_patch_prototypes=num_prototypes // 2,
        queue_length=3840 // num_gpus,
        patch_queue_length=4992 // num_gpus,
        queue_start_epoch=15,
    ),
)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(
        data_root="data/imagenet/train",
        pipeline=[dict(type="PyramidCrop", with_places=True)],
    ),
)
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs)
auto_scale_lr = dict(base_batch_size=num_gpus * batch_size)
