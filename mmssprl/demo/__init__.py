"""Backbone weights that come with the package, to try commands with."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights" / "ssprl_resnet18_demo_backbone.pth"
"""Of configs/ssprl/ssprl_resnet18_scenes.py, seed 0: six epochs on generated scenes. Beside it is
what commands need of that config."""
