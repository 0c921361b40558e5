"""The backbone of the photos configs trained on the labels of all images: a bound, no baseline.

    python -m mmssprl compare --data PHOTOS --methods supervised

As supervised_resnet18_scenes.py. Hardware: one CPU core.
"""

_base_ = ["./supervised_resnet18_scenes.py"]
