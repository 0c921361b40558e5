"""Processes, signals, files and disks; nothing here knows of a training."""
