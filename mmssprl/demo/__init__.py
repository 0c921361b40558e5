"""Backbone weights that come with the package, to try commands with."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights" / "ssprl_resnet18_demo_backbone.pth"
"""SS-PRL after six epochs on generated scenes: ssprl_resnet18_scenes.py, seed 0. The .json file of
the same name describes the backbone."""
