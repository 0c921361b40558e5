"""The comparison: pre-training methods side by side, each with seeds, under one protocol."""
