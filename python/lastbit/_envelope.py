"""Envelopes: runs of a program that differ by perturbations of the size of rounding, and nothing else."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastbit import _lastbit
from lastbit._arguments import PathLike
from lastbit._errors import InputError, LastbitError
from lastbit._json import loads, table
from lastbit._progress import Progress, Shower
from lastbit._result import Result
from lastbit._train import changes, source


@dataclass(frozen=True)
class EnvelopeResult(Result):
    """Runs that differ by rounding.

    Attributes
    ----------
    folder
        Their folder.
    file
        The envelope: a small file with the metrics of all runs.
    runs
        Number of runs, those without a perturbation included.
    reproducible
        Whether two runs without a perturbation are bit-identical in all metrics; None for a configuration of
        :func:`lastbit.train`, which is bit-reproducible.
    differs
        Where they are not: the metric and the step from which it differs.
    reached
        Whether the perturbation reached the program: a perturbed run differs from those without a perturbation in any bit.
        Where the program is not bit-reproducible, whether the launcher has perturbed an optimizer in each run; None if it was
        not run through the launcher, so that this is not known.
    metrics
        One row per metric, as ``pandas.DataFrame`` takes them: ``metric``, ``steps``, ``differs_from`` (the first step at
        which the runs differ), and at the ``last_step`` the ``mean``, the standard deviation ``sd``, and ``relative``,
        their quotient.
    notes
        What a reader should know.
    """

    folder: Path
    file: Path
    runs: int
    reproducible: bool | None
    differs: tuple[str, int] | None
    reached: bool | None
    metrics: list[dict[str, Any]] = field(repr=False)
    notes: list[str]

    def __str__(self) -> str:
        columns = {"metric": "metric", "steps": "steps", "differs_from": "differs from", "last_step": "last step"}
        columns |= {"mean": "mean", "sd": "SD", "relative": "SD/mean"}
        lines = [f"{self.runs} runs; envelope in {self.file}"]
        if self.differs is not None:
            lines.append(f"not bit-reproducible: {self.differs[0]} differs from step {self.differs[1]} on")
        return "\n".join([*lines, *self.notes, table(self.metrics, columns)])


def envelope(
    program: Sequence[str] | PathLike | Mapping[str, Any],
    *,
    n: int = 8,
    out: PathLike = "lastbit-out/envelope",
    kind: str = "ulps",
    launcher: bool = True,
    files: Sequence[str] = (),
    metrics: Sequence[str] = (),
    step_key: str | None = None,
    jobs: int = 1,
    timeout: float | None = None,
    keep_going: bool = False,
    set: Mapping[str, Any] | None = None,
    device: str | None = None,
    data: PathLike | None = None,
    fresh: bool = False,
    progress: bool | Callable[[Progress], object] = True,
) -> EnvelopeResult:
    """Run a program several times with perturbations of the size of rounding, as ``lastbit envelope`` does.

    The program runs twice without a perturbation, then ``n`` times with one. Runs are kept: the same call resumes after
    Ctrl-C, and a larger ``n`` adds runs.

    Parameters
    ----------
    program
        A command as a list of words, in which ``{run}`` stands for the folder of the run: ``["python", "train.py",
        "--log", "{run}/metrics.jsonl"]``. Or a configuration of :func:`lastbit.train`, as the path of a TOML file or a
        dictionary, whose replicas are trained at once.
    n
        Number of perturbed runs; of replicas, for a configuration.
    out
        Their folder.
    kind
        ``"ulps"``, ``"ulp"`` or ``"k"``, as in :func:`lastbit.torch.perturb`.
    launcher
        Whether Python programs run through ``python -m lastbit.torch.launch``, which perturbs the optimizers of PyTorch
        that they create. Other programs read the environment variable ``LASTBIT_PERTURB``.
    files
        Patterns of files that the program writes to the working directory; they are moved to the folder of each run.
    metrics
        Metrics to keep, by name or pattern. Default: all but times.
    step_key
        The key or column that holds the step.
    jobs
        Programs that run at once.
    timeout
        Seconds after which a run has failed.
    keep_going
        Whether the other runs are made after one has failed.
    set, device, data
        For a configuration, as in :func:`lastbit.train`.
    fresh
        Whether to remove the runs that are there.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    EnvelopeResult

    Examples
    --------
    >>> import lastbit, tempfile
    >>> config = {
    ...     "data": {"name": "mnist01", "limit": 64, "test-limit": 16},
    ...     "network": {"kind": "mlp", "hidden": [8], "activation": "tanh"},
    ...     "optimizer": {"name": "sgd", "lr": 0.1},
    ...     "training": {"steps": 20, "batch": 16},
    ... }
    >>> with tempfile.TemporaryDirectory() as out:
    ...     result = lastbit.envelope(config, n=3, out=out)
    >>> result.runs, any(row["sd"] > 0 for row in result.metrics)
    (3, True)
    """
    if isinstance(program, str) and not program.endswith(".toml"):
        expected = 'a list of words such as ["python", "train.py"], a TOML file or a dictionary'
        raise InputError(f"program: found {program!r}, expected {expected}")
    common: dict[str, Any] = {"runs": n, "metrics": list(metrics), "step_key": step_key, "out": out, "fresh": fresh}
    with Shower(progress) as shower:
        if isinstance(program, (str, os.PathLike, Mapping)):
            path, settings = source(program)
            text = _lastbit.envelope_of_training(
                path, settings, set=changes(set or {}), device=device, data=data, show=shower.show, **common
            )
        elif set or device or data:
            raise InputError("set, device, data: found them with a command, expected them with a configuration")
        else:
            text = _lastbit.envelope_of_program(
                list(program),
                kind=kind,
                launcher=launcher,
                files=list(files),
                jobs=jobs,
                timeout=timeout,
                keep_going=keep_going,
                show=shower.show,
                **common,
            )
    return _result(loads(text))


def _result(made: dict[str, Any]) -> EnvelopeResult:
    if made["file"] is None:
        whole, planned, folder = made["whole"], made["planned"], made["folder"]
        raise LastbitError(
            f"{folder}: found {whole} of {planned} runs whole, expected all; another process makes the others, and the same call "
            "gathers them when they are"
        )
    found = made["reproducibility"]
    differs = found["differs"] if isinstance(found, dict) else None
    return EnvelopeResult(
        folder=Path(made["folder"]),
        file=Path(made["file"]),
        runs=made["planned"],
        reproducible=None if found is None else differs is None,
        differs=(differs["metric"], differs["step"]) if differs else None,
        reached=made["reached"],
        metrics=made["metrics"],
        notes=made["notes"],
    )
