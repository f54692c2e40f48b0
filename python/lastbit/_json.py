"""Results of the extension, which come as JSON."""

import json
import math
from typing import Any

#: Keys whose values are names, whatever they say.
_NAMES = {"name", "replica", "data", "hash", "max_difference_at", "first_not_comparable", "note"}
_NOT_FINITE = {"NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def loads(text: str) -> Any:
    """The value of a JSON text; the strings ``"NaN"``, ``"inf"`` and ``"-inf"`` are numbers."""
    return _with_numbers(json.loads(text))


def _with_numbers(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key in _NAMES else _with_numbers(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> str:
    """The JSON text of a value, in which numbers that are not finite are ``"NaN"``, ``"inf"`` and ``"-inf"``."""
    return json.dumps(_with_strings(value), ensure_ascii=False, allow_nan=False)


def _with_strings(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [_with_strings(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_strings(item) for key, item in value.items()}
    return value


def table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Rows as lines of text: the columns by key, with their headings."""

    def shown(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:.5g}"
        if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(end, float) for end in value):
            return f"{value[0]:.3g} … {value[1]:.3g}"
        if isinstance(value, (list, tuple)):
            return "x".join(map(str, value)) or "number"
        return str(value)

    cells = [list(columns.values())] + [[shown(row.get(key)) for key in columns] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)
