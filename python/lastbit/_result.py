"""What all results have in common: a dictionary of their fields, and tables for notebooks."""

import dataclasses
import html
from collections.abc import Iterable
from typing import Any

import numpy as np

#: Entries of a list, and rows of a table, that a notebook shows.
_SHOWN = 8

_NUMBER = ' style="text-align: right; font-variant-numeric: tabular-nums"'
_TEXT = ' style="text-align: left"'


class Result:
    """Base of the dataclasses that functions return."""

    def to_dict(self) -> dict[str, Any]:
        """All fields by name; nested results become dictionaries too."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: _plain(getattr(self, field.name)) for field in fields}

    def _repr_html_(self) -> str:
        text = html.escape(str(self))
        return f'<pre style="white-space: pre-wrap">{text}</pre>{_fields(self)}'


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _fields(result: Result) -> str:
    """The fields of a result that its repr shows, too."""
    fields = dataclasses.fields(result)  # type: ignore[arg-type]
    return _pairs((field.name, getattr(result, field.name)) for field in fields if field.repr)


def _pairs(items: Iterable[tuple[Any, Any]]) -> str:
    """A table of names and values."""
    rows = [f"<tr><th{_TEXT}>{html.escape(str(name))}</th>{_cell(value)}</tr>" for name, value in items]
    return f"<table>{''.join(rows)}</table>"


def _cell(value: Any) -> str:
    """A value in its cell: results, dictionaries and tables of rows as tables of their own, numbers to the right."""
    if isinstance(value, Result):
        return f"<td>{_fields(value)}</td>"
    if isinstance(value, dict) and value:
        items = list(value.items())
        more = [] if len(items) <= _SHOWN else [("…", f"{len(items) - _SHOWN} more")]
        return f"<td>{_pairs(items[:_SHOWN] + more)}</td>"
    if isinstance(value, (list, tuple)) and value and all(isinstance(row, dict) for row in value):
        return f"<td>{_rows(list(value))}</td>"
    style = _NUMBER if _is_number(value) else _TEXT
    return f"<td{style}>{html.escape(_short(value))}</td>"


def _rows(rows: list[dict[Any, Any]]) -> str:
    """A table with one line for each dictionary, and a column for each of their keys."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in names)
    lines = ["".join(_cell(row.get(name)) for name in names) for row in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append(f'<td colspan="{len(names)}"{_TEXT}>… {len(rows) - _SHOWN} more</td>')
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, np.ndarray) and value.size > _SHOWN:
        return f"array of shape {value.shape}, {value.dtype}"
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple, np.ndarray)):
        shown = [_short(item) for item in value[:_SHOWN]]
        more = [f"… {len(value) - _SHOWN} more"] if len(value) > _SHOWN else []
        return ", ".join(shown + more) or "none"
    return str(value)
