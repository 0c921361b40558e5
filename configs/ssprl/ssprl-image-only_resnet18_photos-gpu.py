"""The image scale alone, which is SwAV without small views, at GPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-image-only_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

layout = dict(_base_.layout, levels=[])
model = dict(layout=layout)
