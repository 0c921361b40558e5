"""SS-PRL as in the authors' released code, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Differs from the paper form: there are six 96 px small views in addition to the two image views, g_s
reads the mean raw scores, each pyramid predicts both image codes, and red is divided by 0.228
instead of 0.229. An image takes four backbone passes: 2 x 224, 6 x 96, 8 x 112 and 18 x 96.
Paper, most likely for this form: 61.3 mAP (COCO), 80.5 mAP (VOC07).
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(
    layout=layout,
    data_preprocessor=dict(std=(0.228 * 255, 0.224 * 255, 0.225 * 255)),
    head=dict(variant="released"),
)
