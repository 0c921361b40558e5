"""From pre-trained weights to a model of one's own classes: train it, score it, and use it."""
