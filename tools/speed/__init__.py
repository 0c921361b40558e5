"""How fast mmssprl is: ``python -m tools.speed.cpu``, ``.gpu`` and ``.scaling``."""
