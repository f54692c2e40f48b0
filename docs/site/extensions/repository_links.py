"""Links that lead from ``docs/`` into the rest of the repository lead to the page that shows that file.

In the repository a page links to ``../NOTATION.md``; on the site that file is the page ``reference/notation``. Links to files that are
no pages (programs, say) become downloads.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

#: Files outside of ``docs/`` and the pages that include them.
PAGES = {
    "NOTATION.md": "reference/notation.md",
    "CHANGELOG.md": "reference/changelog.md",
    "examples/README.md": "reference/examples.md",
    "records/README.md": "reference/records.md",
    "README.md": "index.md",
}


def rewrite(app: Sphinx, folder: str, text: str) -> str:
    """The text of a page in ``folder`` (relative to the repository), with links that work on the site."""
    repository = Path(app.srcdir).parent

    def target(match: re.Match[str]) -> str:
        path, anchor = match.group(1), match.group(2) or ""
        page = PAGES.get(os.path.relpath(repository / folder / path, repository))
        return f"](/{page}{anchor})" if page else match.group(0)

    return re.sub(r"\]\(([^)#:\s]+\.md)(#[^)]*)?\)", target, text)


def on_page(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = rewrite(app, os.path.join("docs", os.path.dirname(docname)), source[0])


def on_include(app: Sphinx, relative: Path, _parent: str, content: list[str]) -> None:
    path = (Path(app.srcdir) / relative).resolve()
    repository = Path(app.srcdir).parent.resolve()
    folder = os.path.relpath(path.parent, repository)
    text = rewrite(app, folder, content[0])
    # Links to pages of `docs/` are relative to the included file.
    content[0] = re.sub(r"\]\((?:\.\./)*docs/([^)]+\.md(?:#[^)]*)?)\)", r"](/\1)", text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", on_page)
    app.connect("include-read", on_include)
    return {"parallel_read_safe": True}
