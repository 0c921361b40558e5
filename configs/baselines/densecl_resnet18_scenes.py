"""DenseCL at CPU size: a narrow ResNet-18 on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --size 96
    python tools/train.py configs/baselines/densecl_resnet18_scenes.py

Everything but the dense term is mocov2_resnet18_scenes.py's. The maps of its views of 48 px have 3
x 3 cells. Hardware: one CPU core.
"""

_base_ = ["./mocov2_resnet18_scenes.py"]

model = dict(
    type="DenseCL",
    loss_lambda=0.5,
    dense_start_epoch=1,  # before, the features match cells at random
)
