"""Base of `finetune --task detect` on a CPU: narrower heads, fewer and smaller regions."""

_base_ = "./finetune_detect.py"

usual = dict(image_px=320, batch_size=8, images_seen=20_000)

channels = 64
num_convs = 2  # in the mask head
finest_scale_px = 28  # regions of at least twice this size use the second level

extractor = dict(out_channels=channels, finest_scale=finest_scale_px)
model = dict(
    neck=dict(out_channels=channels),
    rpn_head=dict(in_channels=channels, feat_channels=channels, anchor_generator=dict(scales=[4])),
    roi_head=dict(
        bbox_roi_extractor=extractor,
        bbox_head=dict(
            in_channels=channels, conv_out_channels=channels, fc_out_channels=4 * channels
        ),
        mask_roi_extractor=extractor,
        mask_head=dict(num_convs=num_convs, in_channels=channels, conv_out_channels=channels),
    ),
    train_cfg=dict(
        rpn_proposal=dict(nms_pre=500, max_per_img=250),
        rcnn=dict(sampler=dict(num=64)),
    ),
    test_cfg=dict(rpn=dict(nms_pre=500, max_per_img=150)),
)
