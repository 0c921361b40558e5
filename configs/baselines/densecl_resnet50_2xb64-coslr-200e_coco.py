"""DenseCL (arXiv:2011.09157), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/densecl_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images).
Recipe: the published settings for COCO (800 epochs of train2017, lr 0.3 at batch 256), most of them
also the settings of MoCo v2.
ASSUMPTION: the published lr, scaled linearly to batch 128, and the other settings also suit 200
epochs.
Reported in the SS-PRL paper: 57.0 mAP (COCO), 75.2 mAP (VOC07) with a linear classifier on
DenseCL's features.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

model = dict(
    type="DenseCL",
    loss_lambda=0.5,
    # For an unstable start the authors advise lambda 0 for 10,000 steps, which are 15 epochs here.
    dense_start_epoch=0,
)
small = {
    "optim_wrapper.optimizer.lr": [2e-3, 6e-3, 1e-3],  # tuned on photographs
    "model.dense_start_epoch": 1,  # the first epoch would match cells at random
}
