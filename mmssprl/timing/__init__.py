"""One stopwatch for every step: of forecasts, and of the paces of ``compare``."""
