"""The runs behind ``mmssprl.monitoring``: healthy ones, and ones with a provoked trouble."""
