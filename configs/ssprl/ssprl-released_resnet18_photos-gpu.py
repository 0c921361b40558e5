"""SS-PRL in the form of the authors' released code, at GPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-released_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Differs from it: six small views,
g_s reads the mean raw scores, and each pyramid predicts both image codes. Hardware: one GPU; a CPU
is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout, head=dict(variant="released"))
