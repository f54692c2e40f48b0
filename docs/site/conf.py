"""The documentation: pages of ``docs/``, tutorials that are run while it is built, and the docstrings.

    python -m sphinx --fail-on-warning --jobs 2 -c docs/site docs target/site

Nothing is fetched when a page is viewed: ``test_site.py`` looks for addresses in what was built.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import lastbit  # noqa: E402

project = "lastbit"
version = release = lastbit.__version__
copyright = "the authors of lastbit"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "command_help",
    "notebook_download",
    "public_names",
    "repository_links",
]
exclude_patterns = ["site"]
templates_path = ["templates"]

# Markdown. Anchors are those that a reader of the repository sees.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# Tutorials: an exception in a cell is an error of the build. `-D nb_execution_mode=cache` runs only what has changed.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_ipywidgets_js = {}

# Docstrings.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = "lastbit"
html_static_path = ["static"]
html_css_files = ["lastbit.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
