"""How fast mmssprl is: ``python -m tools.dev.speed.cpu`` and ``.gpu``."""
