"""Reading a run directory."""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lastbit._errors import InputError, LastbitError
from lastbit._json import loads
from lastbit._result import Result


@dataclass(frozen=True)
class Run(Result):
    """What a run directory holds.

    Attributes
    ----------
    folder
        The run directory.
    metrics
        Columns of the metrics file by name, one entry per replica and step, as ``pandas.DataFrame`` takes them:
        ``step``, ``epoch``, ``replica``, ``loss``, ``test_accuracy``, ``rel_l1`` and others. NaN where nothing was
        measured.
    settings
        The settings of the run, complete.
    summary
        How each replica ended; None while the run is not finished.
    """

    folder: Path
    metrics: dict[str, npt.NDArray[Any]] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    summary: dict[str, Any] | None = field(repr=False)

    def fingerprints(self) -> dict[int, dict[str, str]]:
        """Of the run of a :class:`lastbit.torch.Probe`: the hash of each tensor, by step."""
        path = self.folder / "fingerprints.jsonl"
        if not path.exists():
            raise InputError(f"{path}: found no such file, expected a run of lastbit.torch.Probe")
        return {row["step"]: row["tensors"] for row in _rows(path)}

    def of(self, replica: str) -> dict[str, npt.NDArray[Any]]:
        """Return the metrics of one replica.

        Parameters
        ----------
        replica
            Its name, as in ``metrics["replica"]``.

        Returns
        -------
        dict
            The columns of ``metrics``, without the rows of the other replicas.
        """
        own = self.metrics["replica"] == replica
        if not own.any():
            names = ", ".join(dict.fromkeys(self.metrics["replica"].tolist()))
            raise InputError(f"replica: found {replica}, expected one of {names}")
        return {name: column[own] for name, column in self.metrics.items()}

    def __str__(self) -> str:
        steps = self.metrics["step"]
        replicas = len(set(self.metrics["replica"].tolist()))
        end = "finished" if self.summary is not None else "not finished"
        plural = "replica" if replicas == 1 else "replicas"
        return f"{self.folder}: {replicas} {plural}, step {steps.max() if steps.size else 0}, {end}"


def read(folder: str | os.PathLike[str]) -> Run:
    """Read the metrics, settings and summary of a training run; also of one that is still going on.

    Parameters
    ----------
    folder
        A run directory of :func:`lastbit.train`, of the command ``lastbit train`` or of a :class:`lastbit.torch.Probe`.

    Returns
    -------
    Run

    Examples
    --------
    >>> import lastbit, tempfile
    >>> config = {
    ...     "data": {"name": "mnist01", "limit": 64, "test-limit": 16},
    ...     "network": {"kind": "mlp", "hidden": [8], "activation": "tanh"},
    ...     "optimizer": {"name": "sgd", "lr": 0.1},
    ...     "training": {"steps": 20, "batch": 16, "metrics-every": 5},
    ... }
    >>> with tempfile.TemporaryDirectory() as out:
    ...     run = lastbit.read(lastbit.train(config, out=out + "/run").folder)
    >>> run.metrics["step"][-1], run.settings["optimizer"]["name"]
    (np.int64(20), 'sgd')
    """
    path = Path(folder)
    try:
        rows = _rows(path / "metrics.jsonl")
        settings = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: found no {Path(error.filename).name}, expected a run directory") from None
    except tomllib.TOMLDecodeError as error:
        raise LastbitError(f"{path}/config.toml: damaged: {error}") from None
    summary = path / "summary.json"
    return Run(
        folder=path,
        metrics=_columns([_flat(row) for row in rows]),
        settings=settings,
        summary=loads(summary.read_text(encoding="utf-8")) if summary.exists() else None,
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    # What follows the last end of a line is empty, or an incomplete row of a run that is going on.
    return [loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its dictionaries: those of the tensors become ``rel_l1_of.TENSOR``, curvature its own columns."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key == "curvature" and value is not None:
            flat |= {name: item for name, item in value.items() if isinstance(item, (int, float))}
            for i, one in enumerate(value.get("sharpness", [])):
                flat["sharpness" if i == 0 else f"sharpness_{i + 1}"] = one
        elif isinstance(value, dict):
            flat |= {f"{key}.{name}": item for name, item in value.items()}
        else:
            flat[key] = value
    return flat


def _columns(rows: list[dict[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in names or ("step", "replica"):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            columns[name] = np.array(["" if value is None else value for value in values])
        elif all(isinstance(value, int) for value in values):
            # Distances in ulps take all 64 bits.
            is_large = max((value for value in values if value is not None), default=0) >= 2**63
            columns[name] = np.array(values, dtype=np.uint64 if is_large else np.int64)
        else:
            columns[name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return columns
