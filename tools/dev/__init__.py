"""For those who work on the package: speed."""
