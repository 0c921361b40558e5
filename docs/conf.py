"""How Sphinx builds these pages: `make docs`."""

import os
from pathlib import Path
from typing import Any, NoReturn

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import mmssprl
from mmssprl.cli import COMMANDS, build_parser

project = "mmssprl"
author = "the mmssprl contributors"
copyright = "the mmssprl contributors, Apache-2.0"
version = release = mmssprl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # tables that tools write begin below the page's headings

autodoc_typehints = "signature"  # types stand in the signature, shapes and units in the text
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
autodoc_preserve_defaults = True  # a default such as print has no text that can be parsed
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

smartquotes_action = "qe"  # quotes and ellipses; --option keeps its dashes

html_theme = "furo"
html_title = f"mmssprl {version}"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))


def write_commands(app: Any) -> None:
    """Write the page of all commands: what each prints for ``--help``."""
    os.environ["COLUMNS"] = "96"
    parser = build_parser()
    commands = next(action for action in parser._actions if action.choices).choices
    parts = ["# Commands\n\nWhat `python -m mmssprl COMMAND --help` prints."]
    for name in COMMANDS:
        parts.append(f"## {name}\n\n```text\n{commands[name].format_help().rstrip()}\n```")
    Path(app.srcdir, "commands.md").write_text("\n\n".join(parts) + "\n")


def _write_inline(translator: Any, node: Any) -> NoReturn:
    translator.body.append(convert(node.astext()))
    raise SkipNode


def _write_block(translator: Any, node: Any) -> NoReturn:
    translator.body.append(convert(node.astext(), display="block"))
    raise SkipNode


def setup(app: Any) -> None:
    """Register what Sphinx calls."""
    # Equations as MathML, which browsers draw themselves: MathJax would need the internet.
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    app.connect("builder-inited", write_commands)
