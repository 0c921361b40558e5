"""Semi-supervised COCO, 10 % of the labels of train2014 (8,278 images).

    python tools/train.py \
        configs/benchmarks/semisup/semisup-10percent_resnet50_1xb32-steplr-20e_coco14.py \
        --weights BACKBONE.pth

Every run uses the same images, see docs/data.md. The paper used others.
Paper, mAP: SS-PRL 57.0 (COCO pre-training), SwAV 56.2, random weights 10.7.
Hardware: one GPU. Not run at full scale.
"""

_base_ = "semisup-100percent_resnet50_1xb32-steplr-20e_coco14.py"

fraction = 0.1
train_dataloader = dict(dataset=dict(fraction=fraction))
