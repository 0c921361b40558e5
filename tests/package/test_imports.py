"""Imports run one way: no circle of modules, and none of a room that comes later in the list."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import mmssprl

ROOMS = """
    version demo _mmcv_operators errors _dependencies _mmcv_ext pixels pyramid console functional
    system registry models datasets config weights drawing saving engine features search probing
    distillation reporting runs pretraining finetuning experiments cli _api __main__ mmssprl
""".split()  # noqa: SIM905
"""Top-level modules and folders, from those that all may import; the package itself is last."""

FOLDER = Path(mmssprl.__file__).parent
MODULES = {
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FOLDER.rglob("*.py")
}


def imports_of(path):
    """Return the package's modules that a file imports, within functions too."""
    package = path.relative_to(FOLDER.parent).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else base for name in names}
    return found & MODULES.keys()


def room_of(module):
    return module.removeprefix("mmssprl.").partition(".")[0]


def test_imports_run_one_way():
    graph = {module: imports_of(path) for module, path in MODULES.items()}
    assert sum(map(len, graph.values())) > len(MODULES)
    TopologicalSorter(graph).prepare()  # a circle raises CycleError, with its modules

    height = {module: ROOMS.index(room_of(module)) for module in graph}
    upward = []
    for module, others in graph.items():
        upward += [(module, other) for other in others if height[other] > height[module]]
    assert upward == []
