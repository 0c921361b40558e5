"""DenseCL at CPU size for a few thousand photographs of about 200 px: a narrow ResNet-18.

    python tools/train.py configs/baselines/densecl_resnet18_photos.py \\
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Everything but the dense term is mocov2_resnet18_photos.py's. The maps of its views of 64 px have 4
x 4 cells. Hardware: one CPU core.
"""

_base_ = ["./mocov2_resnet18_photos.py"]

model = dict(
    type="DenseCL",
    loss_lambda=0.5,
    dense_start_epoch=1,  # before, the features match cells at random
)
