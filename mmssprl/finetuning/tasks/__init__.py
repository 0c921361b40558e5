"""The tasks: what each puts into a config, how it is scored, drawn and written."""

from .classify import Classify
from .detect import Detect
from .segment import Segment
from .task import Scores, Task

_TASKS: dict[str, type[Task]] = {"classify": Classify, "detect": Detect, "segment": Segment}


def task_class(name: str) -> type[Task]:
    """Return the class of a task by name."""
    return _TASKS[name]


def make_task(name: str, classes: list[str], **facts: bool) -> Task:
    """Return a task for some classes; ``facts`` are what else it is told of the labels."""
    return task_class(name)(classes, **facts)


__all__ = ["Scores", "Task", "make_task", "task_class"]
