"""One thread, equal bits, no state between tests, a reason for each test that cannot run here."""

import gc
import importlib.util
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from helpers.package.default_scope import own_default_scope
from helpers.package.mmcv_builds import IS_COMPILED
from helpers.system.no_gpu import HAS_GPU, hidden_gpu
from mmengine.logging import MMLogger

from mmssprl.system.trusted_modules import named_modules

torch.set_num_threads(1)
# What `nohup` and shells have a process in the background ignore, its children would ignore, too.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, lambda *args: None),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
if HAS_GPU:
    # Its fastest kernels add in another order in each run, and round what convolutions take.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False


def in_own_default_scope() -> Iterator[None]:
    """Forget the registry scope that a runner sets for the whole process."""
    with own_default_scope():
        yield


@pytest.fixture(autouse=True)
def no_named_modules() -> Iterator[None]:
    """Forget the modules that a test has named, with which every command would begin."""
    yield
    named_modules.clear()


@pytest.fixture(autouse=True)
def no_closed_streams() -> None:
    """Remove handlers that write to the captured output of an earlier test."""
    for logger in MMLogger._instance_dict.values():
        for handler in [*logger.handlers]:
            if getattr(getattr(handler, "stream", None), "closed", False):
                logger.removeHandler(handler)


# The scopes that a module's shared fixtures set, and those that a test sets.
own_default_scope_of_module = pytest.fixture(autouse=True, scope="module")(in_own_default_scope)
own_default_scope_of_test = pytest.fixture(autouse=True)(in_own_default_scope)


def pytest_report_header() -> str:
    """Say which operators mmdet and mmseg are tested on."""
    return "operators of mmcv: " + ("compiled" if IS_COMPILED else "torchvision's")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {} if HAS_GPU else {"gpu": "needs a CUDA device"}
    missing = [name for name in ("mmdet", "mmseg") if importlib.util.find_spec(name) is None]
    if missing:
        reasons["full"] = f"needs {', '.join(missing)}: `make test` installs them"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Keep all that is imported out of each search for garbage, as mmengine starts many."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def unformatted_configs() -> Iterator[None]:
    """Leave out yapf, which takes longer than all else that a runner does with its config."""
    with pytest.MonkeyPatch.context() as patch:
        # Its first import in an environment writes a cache, which a second process would read half.
        with FileLock(Path(tempfile.gettempdir()) / "mmssprl_yapf.lock"):
            patch.setattr("yapf.yapflib.yapf_api.FormatCode", lambda text, **style: (text, False))
        yield


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """What a test of the CPU needs where there is a GPU."""
    with hidden_gpu():
        yield


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings that data sets and work dirs give to mmengine's logger in this process."""
    messages: list[str] = []

    def log(message: str, logger: str, level: int) -> None:
        assert (logger, level) == ("current", logging.WARNING)
        messages.append(message)

    modules = ("datasets.bad_images", "datasets.image_index")
    for module in (*modules, "saving.run_record", "saving.run_files"):
        monkeypatch.setattr(f"mmssprl.{module}.print_log", log)
    return messages
