"""The registry scope that a runner sets for the whole process."""

from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.registry import DefaultScope


@contextmanager
def own_default_scope() -> Iterator[None]:
    """Forget at the end which scopes were set inside."""
    before = DefaultScope._instance_dict.copy()
    try:
        yield
    finally:
        # Not emptied in place: ``overwrite_default_scope`` puts another dict here.
        DefaultScope._instance_dict = before
