"""Pre-training on one's own images: which serve, with which recipe, and what it will take."""
