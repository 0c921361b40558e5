"""The scripts of a checkout; tools/dev/speed measures time and memory."""
