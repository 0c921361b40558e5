"""Fine-tune pre-trained weights on a user's classes, score the model, and use it."""
