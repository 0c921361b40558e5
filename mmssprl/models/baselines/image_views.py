"""The views of methods that look at whole images only."""

from collections.abc import Mapping

from ...errors import UserValueError
from ...pyramid import ViewLayout


def image_views(layout: ViewLayout | Mapping, method: str) -> ViewLayout:
    """Return the layout of a method that compares the two image views.

    Raises:
        ValueError: The layout has other views, too, which the method, named in the message, would
            leave unused.
    """
    views = ViewLayout.build(layout)
    if views.levels or views.num_small:
        raise UserValueError(
            f"{method}: the layout must have levels=[] and num_small=0, but got "
            f"{len(views.levels)} levels and num_small={views.num_small}; the method compares the "
            "two image views alone."
        )
    return views
