"""Runs: work that is done once each, several at a time, and kept when it is complete."""
