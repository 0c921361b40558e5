"""A package, so that processes started by tests find it before other packages of that name."""
