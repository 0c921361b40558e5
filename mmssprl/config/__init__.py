"""What a config says, and the one line if it is wrong."""
