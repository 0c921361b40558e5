"""SS-PRL in the form of the authors' released code, at CPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-released_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Differs from it: six small views, g_s
reads the mean raw scores, and each pyramid predicts both image codes. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout, head=dict(variant="released"))
