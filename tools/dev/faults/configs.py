"""Mistakes in the shipped configs: each is one line to the user, or does no harm to a step."""

import copy
import os
import random
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.hooks import Hook

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.errors import message_for_user
from mmssprl.registry import all_names

from .base import Answer, Apart, Log, Outcome, judge
from .small_configs import small_configs, write_data

LIMIT_S = 60.0
"""Time from reading a config to the end of its first step, on a machine that does other things."""
TRAINS, REFUSED = "trains", "one line"
_FINE = (TRAINS, REFUSED)
_VALUES: tuple[Any, ...] = (
    *(-1, 0, 1.5, 10**12, float("inf"), float("nan")),
    *(None, True, "", "abc", "no/where", [], [1, 2], {}, {"a": 1}),
)
_OF_LEVELS = ("alpha", "beta", "num_patch_prototypes", "patch_queue_length")
"""Fields that take a number, or one for each level."""
TEXTS = {
    "a syntax error": "model = dict(\n",
    "tabs and blanks mixed": "if True:\n\tx = 1\n        y = 2\n",
    "a division by zero": "x = 1 / 0\n",
    "an unknown name": "x = undefined\n",
    "an unknown module": "from nowhere import thing\n",
    "a missing _base_": '_base_ = ["nowhere.py"]\n',
    "itself as _base_": '_base_ = "{name}"\n',
    "a missing custom import": 'custom_imports = dict(imports=["nowhere"])\n',
}
"""What a file ends with that is not a config."""


class Mistake(NamedTuple):
    """What was done to a config."""

    text: str  # where and what
    is_certain: bool  # no config may be like that, so a training must not begin


class _Stepped(BaseException):
    """The first step is done."""


class _StopHook(Hook):
    def after_train_iter(self, *args: Any, **kwargs: Any) -> None:
        raise _Stepped


def configs(log: Log, tries: int = 500, pattern: str = "**/*.py") -> Outcome:
    """Start trainings with a mistake; each must be refused in one line, or do a step."""
    with tempfile.TemporaryDirectory() as folder:
        bases = small_configs(write_data(Path(folder)), pattern)
        _check_right(next(iter(bases.values())), Path(folder))
        found = judge(_answers(bases, Path(folder), tries), _FINE, log)
    remark = (
        f"{found.kinds[REFUSED]} refused in one line with file and remedy, "
        f"{found.kinds[TRAINS]} harmless; {len(bases)} shipped configs, up to the first step's end"
    )
    fault = "config with a name, a type, a value, a path or the file itself spoiled"
    return found.outcome(fault, remark)


def _answers(
    bases: Mapping[str, Mapping[str, Any]], folder: Path, tries: int
) -> Iterator[tuple[str, Answer]]:
    draw, names = random.Random(1), list(bases)
    draw.shuffle(names)
    for i in range(tries):
        name = names[i % len(names)]
        path = folder / f"{Path(name).stem}_{i}.py"
        mistake = write_spoiled(bases[name], path, draw)
        answer = outcome(path, folder / f"run{i}")
        if answer.kind == TRAINS and mistake.is_certain:
            answer = answer._replace(kind="trains in spite of it")
        yield f"{name}: {mistake.text}", answer


def _check_right(cfg: Mapping[str, Any], folder: Path) -> None:
    """Train a step without a mistake, for which the compiler may take its time the first time."""
    write(cfg, folder / "right.py")
    answer = outcome(folder / "right.py", folder / "right", limit_s=600.0)
    if answer.kind != TRAINS:
        raise RuntimeError(f"the config itself does not train: {answer}")


def outcome(config: Path, work_dir: Path, *, limit_s: float | None = None) -> Answer:
    """Train a step in a process apart, and return what came of it."""
    with Apart(_train, limit_s=limit_s or LIMIT_S, prepare=_be_silent) as process:
        return process.ask((config, work_dir))


def write_spoiled(cfg: Mapping[str, Any], path: Path, draw: random.Random) -> Mistake:
    """Write a config with one mistake as a file."""
    if draw.random() < 1 / 20:
        name, text = draw.choice(list(TEXTS.items()))
        write(cfg, path, text.replace("{name}", path.name))
        return Mistake(f"the file ends with {name}", True)
    spoiled = copy.deepcopy(dict(cfg))
    places = list(_places(spoiled, ""))
    if draw.random() < 0.5:  # most places are those of a few deep parts
        part = draw.choice(list(spoiled))
        places = [place for place in places if place[2].split(".")[0] == part]
    holder, key, place = draw.choice(places)
    in_dict = (_misspell, _drop, _nest, _add)
    change = draw.choice((_set, _set, _set, *(in_dict if isinstance(holder, dict) else ())))
    text, is_certain = change(holder, key, draw)
    write(spoiled, path)
    # A training reads no part of a test.
    return Mistake(f"{place}: {text}", is_certain and not place.startswith("test_"))


def write(cfg: Mapping[str, Any], path: Path, more: str = "") -> None:
    """Write a config of plain values as a file."""
    lines = [f"{key} = {value!r}\n" for key, value in cfg.items()]
    path.write_text('inf, nan = float("inf"), float("nan")\n' + "".join(lines) + more)


def _be_silent() -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    warnings.simplefilter("ignore")


def _train(question: tuple[Path, Path]) -> tuple[str, str]:
    config, work_dir = question
    try:
        run(prepare_train_config(config, work_dir=work_dir), "train", hooks=[_StopHook()])
    except _Stepped:
        return TRAINS, ""
    except Exception as error:
        text = message_for_user(error)
        if text is None:
            return "traceback", repr(error)
        form = re.escape(str(config)) + r": [^\n]+; [^\n]+"
        return (REFUSED if re.fullmatch(form, text) else "not of the form"), text
    return "ends without a step", ""


def _places(node: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    items = node.items() if isinstance(node, dict) else ()
    for key, child in enumerate(node) if isinstance(node, list) else items:
        place = f"{path}.{key}" if path else str(key)
        yield node, key, place
        yield from _places(child, place)


def _misspell(holder: dict, key: str, draw: random.Random) -> tuple[str, bool]:
    value = holder[key]
    is_type = key == "type" and isinstance(value, str)
    name = value if is_type else key
    i = draw.randrange(len(name))
    wrong = name[:i] + draw.choice(["", name[i] * 2]) + name[i + 1 :] or "x"
    if is_type:
        holder[key] = wrong
        return f"misspelt as {wrong!r}", wrong not in all_names()  # Adam is one letter of AdamW
    holder[wrong] = holder.pop(key)
    return f"misspelt as {wrong!r}", False


def _drop(holder: dict, key: str, draw: random.Random) -> tuple[str, bool]:
    del holder[key]
    return "dropped", False


def _set(holder: Any, key: Any, draw: random.Random) -> tuple[str, bool]:
    old, new = holder[key], copy.deepcopy(draw.choice(_VALUES))
    holder[key] = new
    is_number = isinstance(old, int | float) and not isinstance(old, bool)
    wrong = str | dict if key in _OF_LEVELS else str | list | dict
    is_certain = new != new or (is_number and isinstance(new, wrong))
    return f"set to {new!r}", is_certain


def _nest(holder: dict, key: str, draw: random.Random) -> tuple[str, bool]:
    value = holder.pop(key)
    holder[key] = {key: value} if draw.random() < 0.5 else [value]
    return "nested once more", False


def _add(holder: dict, key: str, draw: random.Random) -> tuple[str, bool]:
    holder["nonsense"] = 1
    return "an unknown field beside it", False
