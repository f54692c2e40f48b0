"""What all results have in common: a dictionary of their fields, and a table for notebooks."""

import dataclasses
import html
from typing import Any

import numpy as np


class Result:
    """Base of the dataclasses that functions return."""

    def to_dict(self) -> dict[str, Any]:
        """All fields by name; nested results become dictionaries too."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: _plain(getattr(self, field.name)) for field in fields}

    def _repr_html_(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = [(field.name, _short(getattr(self, field.name))) for field in fields if field.repr]
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in shown)
        return f"<p>{html.escape(str(self))}</p><table>{rows}</table>"


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"array of shape {value.shape}, {value.dtype}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
