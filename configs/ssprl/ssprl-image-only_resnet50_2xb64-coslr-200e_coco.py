"""Ablation of the paper: the image scale alone, which is SwAV with two image views.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-image-only_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Paper: 79.2 mAP (VOC07 linear; full method 80.5). The paper's scores are most likely for the
released form with six small views.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, levels=[])
model = dict(layout=layout)
