"""Speed, memory and fidelity of the loader."""
