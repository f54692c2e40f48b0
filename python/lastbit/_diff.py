"""How far apart are two sets of tensors?"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._errors import InputError
from lastbit._json import loads, table
from lastbit._result import Result

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}
_Tensor = tuple[str, str, list[int], npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class DiffResult(Result):
    """Two sets of tensors, compared.

    Attributes
    ----------
    identical
        Whether all tensors are bit-identical.
    verdict
        The verdict in words.
    total
        The numbers of ``tensors`` for all tensors together; ``max_difference_at`` names the tensor.
    tensors
        One row per tensor, as ``pandas.DataFrame`` and ``polars.DataFrame`` take them: ``name``, ``status``
        (``"identical"``, ``"different"``, ``"other-shape"``, ``"other-type"``, ``"only-in-a"``, ``"only-in-b"``),
        ``dtype_a``, ``dtype_b``, ``shape_a``, ``shape_b``, ``hash_a``, ``hash_b``, ``ulps_of`` (type whose ulps are
        counted), and where it was compared ``rel_l1``, ``equal_bits`` (bit-identical entries), ``median_ulps``,
        ``max_ulps``, ``agreeing_bits`` (mean of the significant bits that agree), ``max_difference`` with
        ``max_difference_at``, norms, and counts of NaN and infinite entries.
    hash_a, hash_b
        Hash of the bits of all parameters, the same that ``lastbit.train`` reports.
    metadata
        Metadata of two files that differ, by key.
    """

    identical: bool
    verdict: str
    total: dict[str, Any]
    tensors: list[dict[str, Any]] = field(repr=False)
    hash_a: str
    hash_b: str
    metadata: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        different = [row for row in self.tensors if row["status"] == "different"]
        columns = {"name": "tensor", "dtype_a": "type", "shape_a": "shape", "rel_l1": "RelL1"}
        columns |= {"median_ulps": "median ulps", "max_ulps": "max ulps", "agreeing_bits": "bits"}
        columns |= {"max_difference": "max |a - b|"}
        rows = [*different, {"name": "in all", **self.total}]
        return f"{table(rows, columns)}\n\n{self.verdict}" if different else self.verdict


def diff(a: Any, b: Any, *, only: str | None = None) -> DiffResult:
    """Compare two sets of tensors, down to the last bit.

    Parameters
    ----------
    a, b
        A dictionary of name -> numpy array or PyTorch tensor (such as ``model.state_dict()``), or the path of a
        safetensors file.
    only
        Compare only tensors whose name matches this pattern; ``*`` stands for any characters, ``?`` for one.

    Returns
    -------
    DiffResult

    Examples
    --------
    >>> import lastbit, numpy as np
    >>> x = np.float32([1, 2, 3])
    >>> result = lastbit.diff({"x": x}, {"x": np.nextafter(x, np.float32(9))})
    >>> result.identical, result.total["max_ulps"]
    (False, 1)
    """
    found = loads(_lastbit.diff(_tensors("a", a), _tensors("b", b), only))
    rows = []
    for row in found["tensors"]:
        flat = {"name": row["name"], "status": row["status"]}
        for part in ("dtype", "shape", "hash"):
            for side in ("a", "b"):
                flat[f"{part}_{side}"] = None if row[side] is None else row[side][part]
        # All rows have all columns.
        numbers = row["numbers"] or dict.fromkeys(found["total"])
        rows.append({**flat, "ulps_of": row["ulps_of"], **numbers})
    return DiffResult(
        identical=found["identical"],
        verdict=found["verdict"],
        total=found["total"],
        tensors=rows,
        hash_a=found["a"]["hash"],
        hash_b=found["b"]["hash"],
        metadata=found["metadata"],
    )


def _tensors(side: str, tensors: Any) -> str | list[_Tensor]:
    if isinstance(tensors, (str, os.PathLike)):
        return os.fspath(tensors)
    if not isinstance(tensors, Mapping):
        raise InputError(
            f"{side}: found {type(tensors).__name__}, expected a dictionary of name -> array or the path of a "
            "safetensors file"
        )
    return [_tensor(str(name), value) for name, value in tensors.items()]


def _tensor(name: str, value: Any) -> _Tensor:
    tag = None
    if hasattr(value, "detach"):
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":
            # numpy has no such type: the same bits as whole numbers. An int16 tensor has that type in any PyTorch.
            tag, value = "BF16", value.view(_int16(value))
        value = value.numpy()
    array = np.asarray(value)
    tag = tag or _DTYPES.get(array.dtype.name)
    if tag is None:
        raise InputError(f"{name}: found the type {array.dtype}, expected floats, whole numbers or booleans")
    shape = list(array.shape)
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return name, tag, shape, little.reshape(-1).view(np.uint8)


def _int16(tensor: Any) -> Any:
    """PyTorch's int16, without an import of PyTorch."""
    return tensor.new_empty(0).short().dtype
