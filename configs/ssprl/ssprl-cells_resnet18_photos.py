"""SS-PRL with cells of the image views as patches, at CPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-cells_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. This package's own form, not the
paper's: the views are SwAV's, and the patches of a scale are the places of the three larger or the
three smaller small views in the feature maps of the image views. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

layout = dict(_base_.layout, levels=[], num_small=6, cells=[3, 3])
model = dict(type="SSPRLCells", layout=layout, head=dict(type="CellHead"))
train_dataloader = dict(
    dataset=dict(pipeline=[dict(type="PyramidCrop", with_places=True)]),
)
