"""Objects are documented where they are imported from: ``lastbit.judge``, not ``lastbit._judge.judge``."""

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import lastbit
import numpy.typing as npt
from lastbit._result import Result
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation


def public_modules() -> list[ModuleType]:
    """The package and the modules below it that state what is public."""
    names = [found.name for found in pkgutil.walk_packages(lastbit.__path__, "lastbit.")]
    public = [name for name in names if not any(part.startswith("_") or part == "integrations" for part in name.split("."))]
    return [lastbit, *map(importlib.import_module, public)]


def move_to_public_modules(_: Sphinx) -> None:
    for module in public_modules():
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) or inspect.isfunction(found):
                found.__module__ = module.__name__


#: Types that are spelled out where they are used, and what their users call them.
ALIASES = {stringify_annotation(npt.ArrayLike, "smart"): "ArrayLike", stringify_annotation(npt.NDArray[Any], "smart"): "ndarray"}


def shorten_signature(
    _: Sphinx, what: str, _name: str, found: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Results are returned, not made: their constructor is nobody's business. Arrays have their short names."""
    if what == "class" and issubclass(found, Result):
        return "", None
    for text, name in ALIASES.items():
        signature = signature and signature.replace(text, name)
        returns = returns and returns.replace(text, name)
    return signature, returns


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", move_to_public_modules)
    app.connect("autodoc-process-signature", shorten_signature)
    return {"parallel_read_safe": True}
