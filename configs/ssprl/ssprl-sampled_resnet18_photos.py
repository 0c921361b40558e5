"""SS-PRL (paper form) with sampled patches, at CPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-sampled_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Sampled patches are this package's own
extension and not in the paper: 2 of 4 and 3 of 9, drawn anew for each image and step. Hardware: one
CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=2),  # of 4 patches
        dict(_base_.layout.levels[1], num_sampled=3),  # of 9
    ],
)
model = dict(layout=layout)
