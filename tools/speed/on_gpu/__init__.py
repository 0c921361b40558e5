"""Measurements of a GPU."""
