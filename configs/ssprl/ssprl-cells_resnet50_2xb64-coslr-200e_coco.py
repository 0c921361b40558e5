"""SS-PRL with cells of the image views as patches, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh configs/ssprl/ssprl-cells_resnet50_2xb64-coslr-200e_coco.py 2 --amp

All else as in ssprl_resnet50_2xb64-coslr-200e_coco.py. This package's own form, not the paper's:
the views are SwAV's, and the patches of a scale are the places of the three larger or the three
smaller small views in the feature maps of the image views. ASSUMPTION: the released recipe fits
this form; about half of the rows of its patch queues are no pairs. Hardware: 2 GPUs x 64 images.
Not run at full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, levels=[], num_small=6, cells=[3, 3])
model = dict(type="SSPRLCells", layout=layout, head=dict(type="CellHead"))
train_dataloader = dict(
    dataset=dict(pipeline=[dict(type="PyramidCrop", with_places=True)]),
)
