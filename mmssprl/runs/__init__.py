"""A run: its work dir, its devices and its forecast."""
