"""Base of `finetune --task segment` on a CPU: a narrower head, no auxiliary head."""

_base_ = "./finetune_segment.py"

usual = dict(image_px=192, images_seen=20_000)

model = dict(decode_head=dict(channels=128), auxiliary_head=None)
