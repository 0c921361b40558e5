"""The demonstration: SS-PRL beside random weights and SwAV on generated scenes, over seeds."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights" / "ssprl_resnet18_demo_backbone.pth"
"""Backbone of the demonstration's SS-PRL training of seed 0: six epochs on generated scenes, to try
commands with. Beside it is what they need of its config, configs/ssprl/ssprl_resnet18_scenes.py."""
