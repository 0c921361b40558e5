"""The functions of ``import mmssprl``."""

import subprocess
import sys

import pytest

import mmssprl


def python(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_is_light():
    heavy = "{'torch', 'mmengine', 'mmpretrain', 'matplotlib', 'sklearn', 'numpy', 'PIL', 'rich'}"
    code = f"import mmssprl, sys; dir(mmssprl); print(sorted({heavy} & set(sys.modules)))"
    assert python(code) == "[]\n"


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_idle_threads_wait_passively_unless_the_user_says_otherwise(given, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    code = "import mmssprl, os; print(os.environ['OMP_WAIT_POLICY'])"
    assert python(code) == f"{given or 'PASSIVE'}\n"


@pytest.mark.parametrize("name", mmssprl.__all__)
def test_every_function_is_there_and_explains_itself(name):
    function = getattr(mmssprl, name)
    assert callable(function)
    assert len(function.__doc__.splitlines()) > 3
    assert name in dir(mmssprl)


def test_each_name_is_that_of_a_function_whatever_was_imported_before():
    names = ", ".join(mmssprl.__all__)
    code = f"import mmssprl.cli.embed, mmssprl.features\nfrom mmssprl import {names}\n"
    code += f"print([callable(each) for each in ({names},)])"
    assert python(code) == f"{[True] * len(mmssprl.__all__)}\n"


def test_the_list_of_functions_is_that_of_their_places():
    assert sorted(mmssprl._PLACES) == mmssprl.__all__
    with pytest.raises(AttributeError, match="module 'mmssprl' has no attribute 'embedd'"):
        _ = mmssprl.embedd
