"""Base of `finetune --task classify` on a CPU: smaller images, fewer steps."""

_base_ = "./finetune_classify.py"

usual = dict(image_px=128, batch_size=32, images_seen=20_000)
