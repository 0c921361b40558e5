"""What a training survives: faults are injected, and what is lost is counted."""
