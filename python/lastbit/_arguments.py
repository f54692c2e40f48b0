"""Arguments as the extension takes them: settings as JSON, data as a path or a contiguous array."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit._errors import InputError

PathLike = str | os.PathLike[str]
Size = int | tuple[int, int]


def settings(**values: Any) -> str:
    """Settings by the command's names, without those that are None."""
    return json.dumps({_flag(name): _plain(value) for name, value in values.items() if value is not None})


def _flag(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is not finite becomes text, which is refused by its name."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float)) else str(value)


def size(name: str, value: Size) -> str:
    """Rows and columns as ``8x4``; one number is both."""
    sides = (value, value) if isinstance(value, (int, np.integer)) else tuple(value)
    if len(sides) != 2:
        raise InputError(f"{name}: found {value!r}, expected rows and columns, such as (64, 48)")
    return "x".join(map(str, sides))


def data(name: str, value: Any, *dimensions: int) -> str | npt.NDArray[np.float64] | None:
    """The path of a file, or a contiguous array of floats, which is a copy only if it has to be."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return None if value is None else os.fspath(value)
    try:
        found = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: found {type(value).__name__}, expected numbers or the path of a file") from None
    if np.ndim(value) not in dimensions:
        expected = " or ".join({1: "one dimension", 2: "two dimensions"}[count] for count in dimensions)
        raise InputError(f"{name}: found an array of shape {np.shape(value)}, expected {expected}")
    return found


def scheme(value: Any) -> tuple[dict[str, str], str | None]:
    """The settings that name a scheme, or its terms as JSON."""
    if isinstance(value, Mapping):
        return {}, json.dumps(value, default=_plain)
    name = os.fspath(value)
    is_file = not isinstance(value, str) or name.endswith(".toml")
    return {"file" if is_file else "scheme": name}, None
