"""How far apart are two sets of tensors; where do two runs first differ?"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._errors import InputError
from lastbit._json import loads, table
from lastbit._result import Result
from lastbit._run_diff import RunDiffResult, run_diff_result

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


_Path = str | os.PathLike[str]


@overload
def diff(a: Mapping[str, Any], b: Any, *, only: str | None = None) -> DiffResult: ...
@overload
def diff(a: Any, b: Mapping[str, Any], *, only: str | None = None) -> DiffResult: ...
@overload
def diff(a: _Path, b: _Path, *, only: str | None = None) -> DiffResult | RunDiffResult: ...
def diff(a: Any, b: Any, *, only: str | None = None) -> DiffResult | RunDiffResult:
    """Compare two sets of tensors, or two runs, down to the last bit.

    Of two runs it says where they first differ: at which of the steps that both have, in which tensors and by how many
    ulps, how the distance grows from there, and which settings differ.

    Parameters
    ----------
    a, b
        A dictionary of name -> numpy array or PyTorch tensor (such as ``model.state_dict()``), or the path of a
        safetensors file or of a checkpoint folder, also of several files. Or the path of a run: a run directory of
        :func:`lastbit.train` (``"run:k3"`` names a replica) or of :class:`lastbit.torch.Probe`, or a folder of
        checkpoints with their step in the name, such as ``checkpoint-100/model.safetensors``.
    only
        Compare only tensors whose name matches this pattern; ``*`` stands for any characters, ``?`` for one.

    Returns
    -------
    DiffResult or RunDiffResult
        Of two runs the latter.

    Examples
    --------
    >>> import lastbit, numpy as np
    >>> x = np.float32([1, 2, 3])
    >>> result = lastbit.diff({"x": x}, {"x": np.nextafter(x, np.float32(9))})
    >>> result.identical, result.total["max_ulps"]
    (False, 1)

    Two replicas of one run, which differ in rounding alone:

    >>> import tempfile
    >>> config = {
    ...     "data": {"name": "mnist01", "limit": 64, "test-limit": 16},
    ...     "network": {"kind": "mlp", "hidden": [8], "activation": "tanh"},
    ...     "optimizer": {"name": "sgd", "lr": 0.1},
    ...     "training": {"steps": 20, "batch": 16, "metrics-every": 1},
    ...     "replicas": {"k": [1, 3]},
    ... }
    >>> with tempfile.TemporaryDirectory() as out:
    ...     run = lastbit.train(config, out=out + "/run").folder
    ...     result = lastbit.diff(f"{run}:k1", f"{run}:k3")
    >>> result.last_identical_step, result.first_different_step, result.tensors[0]["name"]
    (0, 1, 'fc1.weight')
    """
    text = _lastbit.diff(_tensors("a", a), _tensors("b", b), only)
    if json.loads(text).get("kind") == "runs":
        return run_diff_result(text)
    found = loads(text)
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
