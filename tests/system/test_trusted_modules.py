"""Modules that the user names."""

import pytest

from mmssprl.errors import UserValueError
from mmssprl.system.trusted_modules import import_named


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("./own/nets.py", "own.nets"),
        ("../nets.py", "nets"),
        ("/srv/nets", "srv.nets"),
        ("nets.py", "nets"),
        (r"C:\own\x.py", "own.x"),
        (r"own\x", "own.x"),
    ],
)
def test_a_path_gets_the_name_of_its_module(module, name):
    with pytest.raises(UserValueError) as caught:
        import_named(module)
    assert f"but got {module}; give {name}, and" in str(caught.value)


@pytest.mark.parametrize("module", ["/", "./", "../", ".py"])
def test_a_path_without_a_file_gets_no_name(module):
    with pytest.raises(UserValueError) as caught:
        import_named(module)
    assert str(caught.value).endswith(f"without / and .py, but got {module}.")
