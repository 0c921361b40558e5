"""Lines of progress for work on many images."""

from collections.abc import Callable
from time import monotonic

Log = Callable[[str], None]

_SECONDS_PER_LINE = 5.0


class Progress:
    """Say how far it is, how fast, and how long it will take: every few seconds and at the end.

    Args:
        verb: What is done to the images.
        start: How many were done before, which do not count for the speed.
        total: How many there are.
        log: Takes the lines.
    """

    def __init__(self, verb: str, start: int, total: int, log: Log) -> None:
        self.verb, self.start, self.done, self.total, self.log = verb, start, start, total, log
        self.num_bytes = 0
        self.began = self.said = monotonic()

    def step(self, num_bytes: int) -> None:
        """Count one more image of so many bytes."""
        self.done += 1
        self.num_bytes += num_bytes
        now = monotonic()
        if self.done == self.total or now - self.said >= _SECONDS_PER_LINE:
            self.said = now
            seconds = max(now - self.began, 1e-9)
            rate = (self.done - self.start) / seconds
            self.log(
                f"{self.verb} {self.done:,} of {self.total:,} images, {rate:,.0f} images/s, "
                f"{self.num_bytes / 2**20 / seconds:,.0f} MiB/s, "
                f"{_duration((self.total - self.done) / rate)} left"
            )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
