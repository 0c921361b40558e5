"""DenseCL (arXiv:2011.09157), ResNet-50, COCO train2014 without labels, 200 epochs.

    bash tools/dist_train.sh configs/baselines/densecl_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data: data/coco/train2014 (82,783 images). Hardware: 2 GPUs x 64 images. The settings of its
published COCO recipe (800 epochs of train2017, lr 0.3 at batch 256), most of them MoCo v2's.
ASSUMPTION: its lr scaled linearly to batch 128, the rest kept for 200 epochs. The SS-PRL paper
gives 57.0 mAP (COCO), 75.2 mAP (VOC07) with a linear classifier on DenseCL's features. Not run at
full scale: wall time, memory and mAP are not measured.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

model = dict(
    type="DenseCL",
    loss_lambda=0.5,
    # The authors' advice where the start is unstable is lambda 0 for 10,000 steps, here 15 epochs.
    dense_start_epoch=0,
)
small = {
    "optim_wrapper.optimizer.lr": [2e-3, 6e-3, 1e-3],  # tuned on photographs
    "model.dense_start_epoch": 1,  # before, the features match cells at random
}
