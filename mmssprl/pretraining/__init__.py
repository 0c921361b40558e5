"""What `pretrain` finds out before it trains: which images serve, and what the run will take."""
