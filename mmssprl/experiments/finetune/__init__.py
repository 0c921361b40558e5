"""Fine-tune several times, from several weights, by shares of the labels: one table."""
