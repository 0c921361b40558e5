"""Cells whose terms weigh less: alpha and beta of 0.1 in place of 0.25."""

_base_ = ["../../../configs/ssprl/ssprl-cells_resnet18_{{$SIZE:photos}}.py"]

model = dict(head=dict(alpha=0.1, beta=0.1))
