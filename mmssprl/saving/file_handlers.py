"""mmengine's reading of pickles and YAML, closed to code that a file carries.

Annotation files of data sets may be either. Here mmengine's documented extension point,
``register_handler``, gets handlers that read arrays and plain values only, for the whole process.
"""

from typing import IO, Any

import yaml
from mmengine.fileio import PickleHandler, YamlHandler, register_handler

from ..errors import UserValueError
from ..weights.safe_pickle import load_pickle, reason_of


@register_handler(["pkl", "pickle"])
class SafePickleHandler(PickleHandler):
    """mmengine's PickleHandler, which runs nothing."""

    def load_from_fileobj(self, file: IO[bytes], **kwargs: Any) -> Any:
        """Read a pickle.

        Raises:
            ValueError: It is damaged, or asks for what could run code.
        """
        try:
            return load_pickle(file)
        except Exception as error:  # damaged files raise almost any class
            name = getattr(file, "name", "one")
            raise UserValueError(
                f"a pickle must hold arrays and plain values only, but {name} does not "
                f"({reason_of(error)}); save its values as JSON."
            ) from error


@register_handler(["yaml", "yml"])
class SafeYamlHandler(YamlHandler):
    """mmengine's YamlHandler, which makes plain values alone."""

    def load_from_fileobj(self, file: IO[str], **kwargs: Any) -> Any:
        """Read YAML; a tag of Python's raises YAMLError."""
        return super().load_from_fileobj(file, **{**kwargs, "Loader": yaml.SafeLoader})
