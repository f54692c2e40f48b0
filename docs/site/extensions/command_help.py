"""The directive ``command-help``: what ``lastbit --help`` prints, and ``--help`` of every command below it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class CommandHelp(SphinxDirective):
    """A section for each command, in the order of the help."""

    def run(self) -> list[nodes.Node]:
        return [section(self.state.document, words) for words in commands(())]


def section(document: nodes.document, words: tuple[str, ...]) -> nodes.section:
    title = " ".join(("lastbit", *words))
    found = nodes.section(names=[nodes.fully_normalize_name(title)])
    document.note_implicit_target(found)
    found += nodes.title(text=title)
    text = nodes.literal_block(text=help_of(words))
    text["language"] = "text"
    found += text
    return found


def commands(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A command, then those below it."""
    yield words
    listed = re.search(r"^Commands:\n((?:  .*\n|\n(?=  ))+)", help_of(words) + "\n", re.MULTILINE)
    for name in re.findall(r"^  ([a-z-]+)", listed.group(1), re.MULTILINE) if listed else []:
        if name != "help":
            yield from commands((*words, name))


def help_of(words: tuple[str, ...]) -> str:
    called = [sys.executable, "-m", "lastbit", *words, "--help"]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(called, capture_output=True, text=True, check=True, env=environment).stdout.rstrip()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
