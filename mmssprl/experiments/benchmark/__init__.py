"""The transfer benchmark: its protocols, its runs and its tables."""
