"""How fast mmssprl is: ``python -m tools.speed.cpu`` and ``.gpu``."""
