"""Everything public is documented: each parameter, each attribute, what is returned, and an example."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest

import lastbit

#: Fields that only the package itself reads.
INTERNAL = {"vectors", "edge_vectors"}


def public_modules() -> list[str]:
    names = [found.name for found in pkgutil.walk_packages(lastbit.__path__, "lastbit.")]
    # What the integrations return is an argument for a trainer, and its library may be missing.
    return ["lastbit", *(name for name in names if not any(part.startswith("_") or part == "integrations" for part in name.split(".")))]


def public_objects() -> list[Any]:
    found = []
    for module_name in public_modules():
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # a package that is not installed, PyTorch say
            continue
        objects = [getattr(module, name) for name in module.__all__]
        found += [pytest.param(one, id=f"{module_name}.{one.__name__}") for one in objects if callable(one)]
    return found


def documented(found: Any, section: str) -> list[str]:
    """Names that a section of a docstring lists, in order; several may share a line and its description."""
    text = inspect.getdoc(found) or ""
    body = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(\*{0,2}\w[^\n]*)$", body.group(1), re.MULTILINE) if body else []
    return [name.strip().lstrip("*") for line in lines for name in line.split(" : ")[0].split(",")]


def parameters_of(function: Callable[..., Any]) -> list[str]:
    # pytest gives a fixture its request.
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls", "request")]


@pytest.mark.parametrize("found", public_objects())
def test_is_documented(found: Any) -> None:
    assert inspect.getdoc(found), "expected a docstring"
    if inspect.isclass(found):
        if dataclasses.is_dataclass(found):
            # A base that is public documents the fields that it brings.
            inherited = {field.name for base in found.__bases__ if dataclasses.is_dataclass(base) for field in dataclasses.fields(base)}
            fields = {field.name for field in dataclasses.fields(found)} - inherited
            public = {field for field in fields - INTERNAL if not field.startswith("_")}
            assert sorted(documented(found, "Attributes")) == sorted(public)
        elif documented(found, "Parameters"):
            assert sorted(documented(found, "Parameters")) == sorted(parameters_of(found))
        for name, method in inspect.getmembers(found, inspect.isfunction):
            if not name.startswith("_") and method.__module__.startswith("lastbit"):
                assert inspect.getdoc(method), f"{name}: expected a docstring"
                assert sorted(documented(method, "Parameters")) == sorted(parameters_of(method)), name
    else:
        assert sorted(documented(found, "Parameters")) == sorted(parameters_of(found))
        assert documented(found, "Returns") or inspect.signature(found).return_annotation in (None, "None")
        assert ">>>" in (inspect.getdoc(found) or ""), "expected an example"
