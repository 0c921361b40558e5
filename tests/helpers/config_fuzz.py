"""Seeded mistakes in shipped configs, and what becomes of each up to the first step."""

import copy
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import MMLogger

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.engine.overrides import walk_used
from mmssprl.errors import message_for_user
from mmssprl.shipped import shipped

TRAINS, REFUSED, TRACEBACK, HANGS = "trains", "one line", "traceback", "hangs"
VALUES = [-1, 0, 1.5, float("inf"), float("nan"), None, "", "abc", True, [], [1, 2], {}, {"a": 1}]
SECONDS = 30
FILES = {
    "syntax": "model = dict(\n",
    "tabs": "if True:\n\tx = 1\n        y = 2\n",
    "division": "x = 1 / 0\n",
    "name": "x = undefined\n",
    "import": "from nowhere import thing\n",
    "base": '_base_ = ["nowhere.py"]\n',
    "module": 'custom_imports = dict(imports=["nowhere"])\n',
}
"""What a file ends with that is not a config."""


class FirstStep(BaseException):
    """The run has come this far."""


class StopHook(Hook):
    """Ends the run where its first step would begin."""

    def before_train_iter(self, *args: Any, **kwargs: Any) -> None:
        raise FirstStep


def small_config(name: str, images: Path) -> dict:
    """Read a shipped pre-training on a few images with narrow layers."""
    cfg = Config.fromfile(shipped(name))
    cfg.train_dataloader.dataset.data_root = str(images)
    cfg.train_dataloader.batch_size = 4
    cfg.model.backbone.update(stem_channels=8, base_channels=8)
    if "queue_length" in cfg.model:
        cfg.model.queue_length = 5
    for neck in (part for key, part in cfg.model.items() if "neck" in key):
        neck.update({k: 32 for k in ("in_channels",) if k in neck})
    kept = {key.split(".")[0] for key, _ in walk_used(cfg)} | {"default_scope"}
    return {key: value for key, value in cfg.to_dict().items() if key in kept}


def write(cfg: dict, path: Path) -> None:
    """Write a config of plain values as a file."""
    lines = [f"{key} = {value!r}\n" for key, value in cfg.items()]
    path.write_text('inf, nan = float("inf"), float("nan")\n' + "".join(lines))


def mutate(cfg: dict, rng: random.Random) -> tuple[dict, str]:
    """Return a copy with one mistake, and its description."""
    cfg = copy.deepcopy(cfg)
    holder, name, path = rng.choice(list(_places(cfg, "")))
    kinds: list[Callable] = [_misspell, _drop, _retype, _retype, _retype, _nest, _unknown]
    change = _retype if isinstance(holder, list) else rng.choice(kinds)
    return cfg, f"{path}: {change(holder, name, rng)}"


def outcome(config: Path, work_dir: Path) -> tuple[str, str]:
    """Run a config up to its first step; return what became of it and the message."""
    try:
        with _alarm():
            run(prepare_train_config(config, work_dir=work_dir), "train", hooks=[StopHook()])
    except FirstStep:
        return TRAINS, ""
    except TimeoutError as error:
        return HANGS, str(error)
    except Exception as error:
        text = message_for_user(error)
        is_line = text is not None and "\n" not in text
        return (REFUSED, str(text)) if is_line else (TRACEBACK, repr(error))
    finally:
        for handler in MMLogger.get_current_instance().handlers:
            handler.close()
    return TRAINS, "without a step"


def _places(node: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    items = node.items() if isinstance(node, dict) else ()
    for name, child in enumerate(node) if isinstance(node, list) else items:
        key = f"{path}.{name}" if path else str(name)
        yield node, name, key
        yield from _places(child, key)


def _misspell(holder: dict, name: str, rng: random.Random) -> str:
    i = rng.randrange(len(name))
    value = holder[name]
    if name == "type" and isinstance(value, str):
        i = rng.randrange(len(value))
        holder[name] = value[:i] + value[i + 1 :]
        return f"misspelt as {holder[name]!r}"
    wrong = name[:i] + rng.choice(["", name[i] * 2]) + name[i + 1 :]
    holder[wrong or "x"] = holder.pop(name)
    return f"misspelt as {wrong!r}"


def _drop(holder: dict, name: str, rng: random.Random) -> str:
    del holder[name]
    return "dropped"


def _retype(holder: Any, name: Any, rng: random.Random) -> str:
    holder[name] = copy.deepcopy(rng.choice(VALUES))
    return f"set to {holder[name]!r}"


def _nest(holder: dict, name: str, rng: random.Random) -> str:
    value = holder.pop(name)
    holder[name] = {name: value} if rng.random() < 0.5 else [value]
    return "nested once more"


def _unknown(holder: dict, name: str, rng: random.Random) -> str:
    holder["nonsense"] = 1
    return "an unknown field beside it"


@contextmanager
def _alarm() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"no first step within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
