"""Ablation of the paper: L_pyr alone, no cross-scale term.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-pyramid-only_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Paper: 79.5 mAP (VOC07 linear; full method 80.5). The paper's scores are most likely for the
released form with six small views.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

model = dict(head=dict(with_cross=False))
