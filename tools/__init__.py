"""The scripts of a checkout; tools/speed measures time and memory."""
