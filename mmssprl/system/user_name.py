"""The name of the user, which torch asks for when it is imported."""

import getpass
import os


def name_user() -> None:
    """Name the user if the system does not, as in a container of `docker run --user`."""
    try:
        getpass.getuser()
    except (KeyError, OSError):  # from Python 3.13 on an OSError
        os.environ["USER"] = f"user{os.getuid()}"
