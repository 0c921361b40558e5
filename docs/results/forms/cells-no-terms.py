"""Cells whose terms have no weight: their places are read, and nothing is learned from them."""

_base_ = ["../../../configs/ssprl/ssprl-cells_resnet18_{{$SIZE:photos}}.py"]

model = dict(head=dict(alpha=0.0, beta=0.0))
