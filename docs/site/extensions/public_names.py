"""Objects are documented where they are imported from: ``lastbit.judge``, not ``lastbit._judge.judge``."""

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import lastbit
from lastbit._result import Result
from sphinx.application import Sphinx


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


def without_constructor(
    _: Sphinx, what: str, _name: str, found: Any, _options: Any, _signature: str, _returns: str
) -> tuple[str, None] | None:
    """Results are returned, not made: their constructor is nobody's business."""
    return ("", None) if what == "class" and issubclass(found, Result) else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", move_to_public_modules)
    app.connect("autodoc-process-signature", without_constructor)
    return {"parallel_read_safe": True}
