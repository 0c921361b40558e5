"""Semi-supervised COCO, 1 % of the labels of train2014 (828 images).

    python tools/train.py \
        configs/benchmarks/semisup/semisup-1percent_resnet50_1xb32-steplr-20e_coco14.py \
        --weights BACKBONE.pth

Every run uses the same images, see docs/data.md. The paper used others.
Paper, mAP: SS-PRL 45.1 (COCO pre-training), SwAV 43.6, random weights 4.6.
Hardware: one GPU. Not run at full scale.
"""

_base_ = "semisup-100percent_resnet50_1xb32-steplr-20e_coco14.py"

fraction = 0.01
train_dataloader = dict(dataset=dict(fraction=fraction))
