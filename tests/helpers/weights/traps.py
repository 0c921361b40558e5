"""Files that would run code."""


class Call:
    """Unpickled, it calls a function."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call
