"""SS-PRL with six small views, LARC and queues, for photographs on a GPU: compare_forms.sh.

Optimizer, freezing and the share of the training after which queues join are the released recipe's,
the rate by the batch; queues hold as many rows per prototype. Residual branches start at zero, as
in all rows of a comparison, which LARC does not scale.
"""

_base_ = ["../../../configs/ssprl/ssprl_resnet18_photos-gpu.py"]

max_epochs = 30
num_prototypes = 60

layout = dict(_base_.layout, num_small=6)
model = dict(
    layout=layout,
    head=dict(
        queue_length=1920 * num_prototypes // 300,
        patch_queue_length=4992 * num_prototypes // 150,
        queue_start_epoch=max_epochs * 80 // 200,
        freeze_epochs=1,
        epsilon=0.05,
    ),
)
optim_wrapper = dict(
    optimizer=dict(
        _delete_=True,
        type="LARC",
        lr=0.6 * 64 / 128,
        momentum=0.9,
        weight_decay=1e-6,
        trust_coefficient=0.001,
    )
)
