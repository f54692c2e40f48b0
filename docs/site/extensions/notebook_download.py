"""Under the title of each tutorial: a link to the notebook that was run."""

import os
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class NotebookDownload(SphinxTransform):
    """Adds the link to pages below ``tutorials/``."""

    default_priority = 400

    def apply(self) -> None:
        docname = self.env.docname
        title = next(self.document.findall(nodes.title), None)
        if not docname.startswith("tutorials/") or title is None:
            return
        notebook = Path(self.env.mystnb_config.output_folder) / f"{docname}.ipynb"
        link = download_reference("", "", reftarget="/" + os.path.relpath(notebook, self.env.srcdir))
        link += nodes.inline(text="this page as a notebook", classes=["xref", "download"])
        line = nodes.paragraph("", "", nodes.Text("Download "), link, classes=["notebook-download"])
        title.parent.insert(title.parent.index(title) + 1, line)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NotebookDownload)
    return {"parallel_read_safe": True}
