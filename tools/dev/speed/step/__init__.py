"""Time and exact counts of a training step on a CPU."""
