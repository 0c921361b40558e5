"""Configs: reading, overrides, and checks that end in one line."""
