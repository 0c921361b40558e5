"""For those who work on the package: speed, faults, bands of healthy runs."""
