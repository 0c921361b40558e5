"""The tasks: how each is configured, scored, drawn and written."""

from .classify import Classify
from .detect import Detect
from .segment import Segment
from .task import Scores, Task

TASKS: dict[str, type[Task]] = {kind.name: kind for kind in (Classify, Detect, Segment)}
"""The class of each task, by its name."""

__all__ = ["TASKS", "Scores", "Task"]
