import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from helpers.package.checkout import ROOT
from mmengine.config import Config

from mmssprl.config.found_config import found_config, read_found
from mmssprl.config.shipped import shipped
from mmssprl.errors import UserError, UserFileNotFoundError
from tools.dev.faults.base import Apart

CONFIGS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "configs").rglob("*.py"))
MODEL = "model = dict(backbone=dict(type='ResNet', depth=18))\n"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_dump_is_read_as_it_would_run(name, tmp_path):
    content = Config.fromfile(shipped(name)).to_dict()
    dump = tmp_path / Path(name).name
    Config(content, format_python_code=False).dump(dump)
    found = read_found(dump)
    expected = Config.fromfile(dump)
    assert found.to_dict() == expected.to_dict() == content
    assert repr(found) == repr(expected)
    assert found.filename == expected.filename


def test_every_kind_of_value(tmp_path):
    path = tmp_path / "a.py"
    content = {
        "numbers": [-1, -2.5e-05, 0, True, None, 2**62],
        "texts": ("it's", 'two\n"lines"', "\udce9", "photos{{1}}"),
        "mapping": {"a-b": {"c": ()}, 3: [{}]},
        "nested": {"a": [[1], ({"b": 2},)]},
    }
    Config(content).dump(path)
    path.write_text('"""About it."""\n' + path.read_text() + "joined = 'one ' 'text'\n")
    assert read_found(path).to_dict() == Config.fromfile(path).to_dict()
    assert read_found(path).to_dict() == {**content, "joined": "one text"}


PROGRAMS = {
    "import": "import os",
    "call": "x = print(1)",
    "call in a dict": "x = dict(a=[dict(b=open('sprung', 'w'))])",
    "name": "x = y",
    "sum": "x = 1 + 1",
    "unpacked dict": "x = dict(**{'a': 1})",
    "statement": "open('sprung', 'w')",
    "base": "_base_ = 'b.py'",
    "replaced by mmengine": "x = '{{ fileBasename }}'",
    "of the environment": "x = '{{$HOME:a}}'",
    "positional": "x = dict([('a', 1)])",
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_anything_else_is_one_line(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(MODEL + PROGRAMS[case] + "\n")
    with pytest.raises(UserError, match=r"^a.py: line 2: .*; .*as config"):
        read_found("a.py")
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


HOSTILE = {
    "lists of a million levels": "[" * 10**6 + "]" * 10**6,
    "lists of 150 levels": "[" * 150 + "]" * 150,
    "dicts of 150 levels": "dict(a=" * 150 + "1" + ")" * 150,
    "signs": "-" * 900_000 + "1",
    "calls": "x" + "()" * 400_000,
    "sums": "1+" * 400_000 + "1",
    "lambdas": "lambda:" * 100_000 + "1",
    "f-strings": "f'" + "{x" * 900 + "}" * 900 + "'",
    "a long number": "9" * 10**5,
    "a long hexadecimal number": "0x" + "f" * 10**5,
    "a null byte": "\0",
    "half a string": "'a",
    "a list as a key": "{[]: 1}",
    "two megabytes": " " * 2_000_000 + "1",
}


def _refusal(path):
    with pytest.raises(UserError) as caught:
        read_found(path)
    return "refused", str(caught.value)


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_crash_a_parser_is_one_line(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(f"x = {HOSTILE[case]}\n")
    with Apart(_refusal, limit_s=100.0) as apart:
        answer = apart.ask("a.py")
    assert answer.kind == "refused"
    assert len(answer.line) < 500
    assert re.fullmatch(r"a.py: .*; .* as config.*", answer.line)


def test_files_that_are_none(tmp_path):
    path = tmp_path / "a.py"
    for content, told in ((b"x = '\xff'\n", "'utf-8' codec"), (b"filename = 'b'\n", "is reserved")):
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"a.py: .*{told}"):
            read_found(path)
    for make in (lambda: path.symlink_to("/dev/zero"), lambda: os.mkfifo(path)):
        path.unlink()
        make()
        with pytest.raises(UserError, match="a.py: it must be a file"):
            read_found(path)


RUNS = {
    "model.backbone.type": "model = dict(backbone=dict(type='runpy.run_path', path_name='b.py'))",
    "n.network": "n = dict(type='mmssprl.ModuleBackbone', network='planted:network')",
    "o.0.network": "o = [dict(type='ModuleBackbone', network='os:abort')]",
    "a.0.type": "a = [dict(type='mmengine.Config.fromfile', filename='b.py')]",
    "a.1.b.type": "a = (1, dict(b=dict(type='mmpretrain.get_model', model='b.py')))",
    "b.type": "b = dict(type='planted')",
    "c.type": "c = dict(type='planted.ResNet')",
    "default_scope": "default_scope = 'planted'",
    "d._scope_": "d = dict(type='ResNet', _scope_='planted')",
    "runner_type": "runner_type = 'planted'",
    "optim_wrapper.constructor": "optim_wrapper = dict(constructor='os.system')",
    "h.resize_type": "h = dict(type='RandomResize', resize_type='os.system')",
    "i.ema_type": "i = dict(type='EMAHook', ema_type='planted')",
    "custom_imports": "custom_imports = dict(imports=['json', 'planted'])",
    "nms.type": "nms = dict(type='open(\\'sprung\\', \\'w\\')')",  # which mmcv evaluates
    "e.type": "e = dict(type='torchvision/ConvertImageDtype', dtype='float')",
    "f.type": "f = dict(type='RFSearchHook')",
    "g.type": "g = dict(type='mmseg.LoadBiomedicalData')",
}


@pytest.mark.parametrize("key", RUNS)
def test_no_name_makes_mmengine_run_anything(key, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("planted.py", "b.py"):
        Path(name).write_text("open('sprung', 'w')\n")
    Path("a.py").write_text(RUNS[key] + "\n")
    with pytest.raises(UserError, match=rf"^a.py: {key}: .*; .*as config"):
        read_found("a.py")
    assert not Path("sprung").exists()
    assert "planted" not in sys.modules


def test_names_of_registered_parts_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ResNet").mkdir()  # a package without a file
    Path("a.py").write_text(
        "custom_imports = dict(imports=['json', 'mmpretrain.models'])\n"
        "model = dict(type='mmssprl.SSPRL', backbone=dict(type='ResNet'))\n"
        "collate_fn = dict(type='mmssprl.stack_views')\n"
        "optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='torch.optim.SGD'))\n"
        "other = dict(type='mmpretrain.models.backbones.resnet.ResNet', _scope_='mmengine')\n"
        "clip_grad = dict(type='norm')\n"  # of no registry
    )
    assert read_found("a.py").to_dict() == Config.fromfile("a.py").to_dict()


def test_one_of_several_files_is_taken(tmp_path):
    with pytest.raises(UserFileNotFoundError, match="none; keep one"):
        found_config(tmp_path)
    (tmp_path / "script.py").write_text("import os\n")
    with pytest.raises(UserError, match=r"script.py: line 1: "):
        found_config(tmp_path)
    (tmp_path / "a.py").write_text(MODEL)
    assert found_config(tmp_path).filename == str(tmp_path / "a.py")
    (tmp_path / "b.py").write_text(MODEL)
    with pytest.raises(UserError, match=r"'a.py', 'b.py'"):
        found_config(tmp_path)
    assert found_config(tmp_path, stem="b").filename == str(tmp_path / "b.py")


@pytest.mark.full
def test_parts_of_other_packages_that_evaluate_their_fields_are_known():
    """A new version may bring more of them: then see whether ``_RUNS_VALUES`` has to name them."""
    found = set()
    evaluates = re.compile(r"(?<![.\w])(eval|exec)\((?!\))")
    for package in ("mmengine", "mmcv", "mmpretrain", "mmdet", "mmseg"):
        root = Path(importlib.util.find_spec(package).origin).parent
        for path in root.rglob("*.py"):
            if ".mim" not in path.parts and evaluates.search(path.read_text()):
                found.add(str(path.relative_to(root.parent)))
    assert found == {
        "mmengine/config/config.py",  # of configs that are named
        "mmcv/ops/nms.py",  # a type, which must be a name
        "mmcv/cnn/rfsearch/search.py",
        "mmpretrain/datasets/transforms/processing.py",  # torchvision/..., which is no name
        "mmdet/evaluation/functional/class_names.py",  # of a table
        "mmdet/models/task_modules/tracking/camera_motion_compensation.py",
        "mmseg/utils/class_names.py",  # of a table
    }
