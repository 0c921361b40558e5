"""SS-PRL (paper form) whose patches are its small views, at CPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-shared-views_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Patches that serve the image scale as
small views are this package's own form: six of them, of 1 of 4 and 2 of 9 cells, drawn anew for
each image and step, are the patches and the small views in one. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=1, is_small_view=True),  # of 4 patches
        dict(_base_.layout.levels[1], num_sampled=2, is_small_view=True),  # of 9
    ],
)
model = dict(layout=layout)
