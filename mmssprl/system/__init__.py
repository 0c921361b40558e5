"""Processes, signals, files and disks; independent of training code."""
