"""The image scale alone, which is SwAV without small views, at CPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-image-only_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

layout = dict(_base_.layout, levels=[])
model = dict(layout=layout)
