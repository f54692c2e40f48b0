"""What a training program logged."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lastbit import _lastbit
from lastbit._result import Result


@dataclass(frozen=True)
class Metric(Result):
    """A metric over steps.

    Attributes
    ----------
    steps
        Steps, increasing.
    values
        The value at each step; it may be infinite or NaN.
    """

    steps: npt.NDArray[np.uint64]
    values: npt.NDArray[np.float64]

    def __str__(self) -> str:
        last = f", last {self.values[-1]:.6g} at step {self.steps[-1]}" if self.steps.size else ""
        return f"{self.steps.size} {'value' if self.steps.size == 1 else 'values'}{last}"


@dataclass(frozen=True)
class LoggedRun(Result):
    """The metrics of a run, as its program logged them.

    Attributes
    ----------
    metrics
        Each metric by its name.
    files
        The files that they were read from.
    notes
        What you should know, such as an unfinished last line of a file that still grows.
    """

    metrics: dict[str, Metric] = field(repr=False)
    files: list[Path]
    notes: list[str]

    def __str__(self) -> str:
        width = max(map(len, self.metrics), default=0)
        lines = [f"{name.ljust(width)}  {metric}" for name, metric in self.metrics.items()]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def logged(
    path: str | os.PathLike[str], *, metric: str | Sequence[str] = (), step_key: str | None = None
) -> LoggedRun:
    """Read the metrics that a training program logged: what ``lastbit envelope`` and ``lastbit check`` compare.

    Parameters
    ----------
    path
        A file or the folder of a run: JSON lines, CSV, event files of TensorBoard, ``trainer_state.json`` of Hugging
        Face, or a run directory of lastbit.
    metric
        Names of metrics, in which ``*`` stands for any characters and ``?`` for one. By default all but those of wall
        time, such as ``train_runtime``.
    step_key
        The name under which rows have their step. By default the first of ``step``, ``global_step``, ``iteration``,
        ``iter``, ``_step`` and ``epoch`` that the file has.

    Returns
    -------
    LoggedRun

    Examples
    --------
    >>> import lastbit, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "metrics.jsonl")
    ...     _ = file.write_text('{"step": 1, "loss": 0.5}\\n{"step": 2, "loss": 0.25}\\n')
    ...     run = lastbit.logged(file)
    >>> run.metrics["loss"].values
    array([0.5 , 0.25])
    """
    names = [metric] if isinstance(metric, str) else list(metric)
    metrics, files, notes = _lastbit.logged(os.fspath(path), names, step_key)
    return LoggedRun(
        metrics={name: Metric(steps=steps, values=values) for name, steps, values in metrics},
        files=files,
        notes=notes,
    )
