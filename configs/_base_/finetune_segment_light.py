"""What `finetune --task segment` begins with on a CPU: a narrower head, and no auxiliary one."""

_base_ = "./finetune_segment.py"

usual = dict(image_px=192, images_seen=20_000)

model = dict(decode_head=dict(channels=128), auxiliary_head=None)
