import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
from helpers.features.probe_folders import write_coco, write_image

import mmssprl
from mmssprl.cli import COMMANDS, build_parser
from mmssprl.config.shipped import config_file

ROOT = Path(__file__).parents[2]


def blocks_of(page):
    """Language, text and line of the blocks of shell commands and Python, and whether they run."""
    text = page.read_text()
    for match in re.finditer(r"^```(bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: match.start()]
        reason = re.search(r"<!-- not run by tests: [^>]+ -->\n\Z", before)
        yield match[1], match[2], before.count("\n") + 1, not reason


WRITTEN = sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/commands.md"})
PAGES = [path for path in WRITTEN if any(blocks_of(path))]
PAGES.sort(key=lambda path: path.name != "photographs.md")  # others use what it trains
SHORTER = {
    **{f"--epochs {number}": "--epochs 1 --batch-size 8" for number in (100, 20, 5)},
    "labelled/ --task classify": "labelled/ --task classify --epochs 1",
    "--num-train 1000": "--num-train 40 --num-val 20 --image-px 96",  # as on another page
    "pretrain photos.tar": "pretrain photos.tar --backbone resnet18 --epochs 1 --batch-size 8",
    "compare --data labelled/": "compare --size photos --dry-run",
    "train my_swav.py": "train my_swav.py --cfg-options train_cfg.max_epochs=1 "
    "param_scheduler.0.T_max=1 train_dataloader.batch_size=8 train_dataloader.num_workers=1 "
    "model.backbone.depth=18 model.neck.in_channels=512",
}
"""Commands of the pages, and the faster ones that the tests run."""


@pytest.mark.fence
@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_every_command_on_a_page_is_understood(page):
    fences = re.findall("^```(?:bash|python)", page.read_text(), re.MULTILINE)
    assert len([*blocks_of(page)]) == len(fences), "no block is overlooked"
    parser = build_parser()
    texts = [text for language, text, *_ in blocks_of(page) if language == "bash"]
    for line in "".join(texts).replace("\\\n", " ").splitlines():
        words = shlex.split(line.partition(" > ")[0], comments=True)
        if words[:3] == ["python", "-m", "mmssprl"]:
            parser.parse_args(words[3:])
        for word in words:
            if words[0] != "mim" and re.fullmatch(r"configs/.*\.py", word):
                config_file(word)


def names_of(code):
    """Return what a block of Python takes from this package, as module:name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("mmssprl"):
            for alias in node.names:
                yield f"{node.module}:{alias.name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mmssprl":
            yield f"mmssprl:{node.attr}"


def test_pages_take_names_from_the_package_that_are_there():
    found = set()
    for page in WRITTEN:
        for language, code, *_ in blocks_of(page):
            found |= {*names_of(code)} if language == "python" else set()
    assert len(found) >= 20
    for name in sorted(found):
        resolve_name(name)


def readme_lines():
    """The README's indented lines, and the commands in its tables."""
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^ {4}(.*)$", text.replace("\\\n        ", ""), re.MULTILINE)
    cells = re.findall("`(.*?)`", "\n".join(re.findall(r"^\|.*$", text, re.MULTILINE)))
    return [re.split(r"\s+#", line)[0] for line in lines + cells]


@pytest.mark.fence
def test_every_command_of_the_readme_is_understood():
    lines = readme_lines()
    typed = [line.split()[1:] for line in lines if line.startswith("mmssprl ")]
    assert len(typed) >= 8
    for words in typed:
        assert words[0] in COMMANDS
        if len(words) > 2:
            build_parser().parse_args(words)
    made = {line.split()[1] for line in lines if line.startswith("make ")}
    targets = re.findall("^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= made <= {*targets}


def test_contributing_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:mmssprl|tests|configs)/[^`]*)`", text)
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_public_function_is_on_the_page_of_python():
    page = (ROOT / "docs/api.md").read_text()
    documented = re.findall(r"^\.\. auto(?:function|class):: (\w+)$", page, re.MULTILINE)
    assert sorted(documented) == mmssprl.__all__


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """A reader's folder: photographs, labelled images, the checkout's tools."""
    folder = tmp_path_factory.mktemp("reader")
    for i in range(24):
        write_image(folder / "photos" / f"{i}.jpg", ("red",) if i % 2 else ("green",), i)
    write_coco(folder)
    (folder / "coco").rename(folder / "labelled")
    config = ROOT / "configs/ssprl/ssprl_resnet18_photos.py"
    (folder / "my_config.py").write_text(f'_base_ = "{config}"\n')
    for name in ("tools", "examples", "configs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(text, language, folder, place):
    """Run a block in a folder, shortened."""
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    program = ["bash", "-euo", "pipefail"] if language == "bash" else [sys.executable]
    command = [*program, "-c", text]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{place}: {done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.fence
def test_the_first_examples_of_the_readme_run(sandbox, tmp_path):
    lines = readme_lines()
    command = next(line for line in lines if line.startswith("mmssprl pretrain photos/"))
    assert "--probe" in command
    first = lines.index("import mmssprl")
    code = "\n".join(lines[first : first + 3])
    assert code.count("mmssprl.") == 2
    for name in ("photos", "labelled"):
        (tmp_path / name).symlink_to(sandbox / name)
    for text, language in ((command, "bash"), (code, "python")):
        shorter = text.replace("epochs=100", "epochs=1, batch_size=8")
        run(shorter, language, tmp_path, "README.md")
        shutil.rmtree(tmp_path / "work_dirs")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_on_a_page_runs(page, sandbox):
    for language, text, line, is_run in blocks_of(page):
        if is_run:
            run(text, language, sandbox, f"{page}, line {line}")
