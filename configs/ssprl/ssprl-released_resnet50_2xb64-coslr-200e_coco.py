"""SS-PRL as in the authors' released code, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Differs from the paper form: six 96 px small views beside the two image views, g_s reads the mean
raw scores, and each pyramid predicts both image codes. Hardware: 2 GPUs x 64 images. Not run at
full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout, head=dict(variant="released"))
train_dataloader = dict(dataset=dict(pipeline=[dict(type="PyramidCrop", layout=layout)]))
