"""What runs code where it is unpickled, and a backbone to put it beside."""

NARROW = {
    **{"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8, "num_stages": 2},
    **{"strides": (1, 2), "dilations": (1, 1), "out_indices": (1,)},
}
"""That of the linear config."""


class Calling:
    """Asks for a call where it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call
