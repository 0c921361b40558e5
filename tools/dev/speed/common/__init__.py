"""What the measurements share: clock, counts, gates, report."""
