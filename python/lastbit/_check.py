"""Could rounding alone have made this run?"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lastbit import _lastbit
from lastbit._arguments import PathLike
from lastbit._errors import InputError
from lastbit._json import loads, table
from lastbit._result import Result

#: The metric of a run that is a list of values.
_VALUE = "value"


@dataclass(frozen=True)
class CheckResult(Result):
    """A run beside runs that differ by rounding alone.

    Attributes
    ----------
    verdict
        ``"inside"``, ``"outside"``, or ``"undecided"``: farther off than all runs of the envelope, but these are too
        few for the level; or inside as far as it was compared, which was not with all of the envelope.
    sentence
        The verdict in sentences.
    support
        What so many runs can support.
    runs
        Runs of the envelope.
    level
        The chance of a false alarm is to be at most this.
    p
        The larger of ``tail_p`` and ``t_p``.
    rank_p
        Share of the runs, this one included, that are as far off as this one; at least 1/(runs + 1).
    tail_p
        The same, continued below that by the tail of the deviations.
    t_p
        By the predictive t of the logarithms of the deviations.
    deviation
        Largest distance from the mean over all steps and metrics, in standard deviations of a new run, relative to the
        largest that the envelope's runs have nearby.
    limit
        The deviation beyond which a run is outside.
    largest_of_runs
        Largest deviation among the envelope's own runs.
    doubts
        What else keeps a run from being inside: metrics that it lacks, steps that it does not reach, an envelope without
        any difference between its runs.
    runs_needed
        How many runs would decide, where the run is farther off than all runs of the envelope, but not outside.
    leaves
        Where the run leaves first: ``metric``, ``step``, ``value``, ``mean``, ``spread`` (standard deviation of a new
        run), ``score`` (difference in standard deviations), ``usual`` (the largest score of the envelope's runs nearby) and
        ``all_equal`` (whether all runs of the envelope are equal there).
    metrics
        One row per metric, the one that is farthest off first: ``metric``, ``steps`` (compared), ``farthest`` (as
        ``leaves``), ``leaves_at`` (the first step beyond the limit), ``spacing`` (of a metric that takes few values),
        ``constant`` (whether all runs of the envelope are equal).
    notes
        What was not compared, and why.
    """

    verdict: str
    sentence: str
    support: str = field(repr=False)
    runs: int
    level: float
    p: float
    rank_p: float = field(repr=False)
    tail_p: float = field(repr=False)
    t_p: float = field(repr=False)
    deviation: float
    limit: float
    largest_of_runs: float
    doubts: list[str]
    runs_needed: int | None
    leaves: dict[str, Any] | None = field(repr=False)
    metrics: list[dict[str, Any]] = field(repr=False)
    notes: list[str] = field(repr=False)

    def __str__(self) -> str:
        rows = [
            {"metric": row["metric"], "steps": row["steps"], "leaves_at": row["leaves_at"]}
            | ({key: row["farthest"][key] for key in ("score", "step")} if row["farthest"] else {})
            for row in self.metrics
        ]
        columns = {"metric": "metric", "steps": "steps", "score": "SDs off", "step": "at step", "leaves_at": "leaves at"}
        support = [] if self.verdict == "inside" else ["", self.support]
        notes = [f"Note: {note}" for note in self.notes]
        return "\n".join([self.sentence, "", table(rows, columns), *support, *notes])


@dataclass(frozen=True)
class Envelope:
    """The metrics of runs that differ by rounding alone.

    Made by :func:`envelope_of`, or by the command ``lastbit envelope`` and read with :meth:`open`.

    Attributes
    ----------
    runs
        Names of the runs.
    metrics
        Names of the metrics.
    perturbation
        How the runs were perturbed.
    notes
        What was left out, and why.
    """

    runs: list[str]
    metrics: list[str]
    perturbation: str
    notes: list[str] = field(repr=False)
    _text: str = field(repr=False)

    @classmethod
    def _of(cls, text: str) -> "Envelope":
        found = loads(text)
        return cls(found["runs"], list(found["metrics"]), found["perturbation"], found.get("notes", []), text)

    @property
    def has_spread(self) -> bool:
        """Whether any run differs from another in any bit; otherwise the perturbation did not reach them."""
        bands = loads(self._text)["metrics"].values()
        return any(len({repr(values) for values in band["values"]}) > 1 for band in bands)

    @classmethod
    def open(cls, path: PathLike) -> "Envelope":
        """Read an envelope.

        Parameters
        ----------
        path
            A file, or the folder that ``lastbit envelope`` wrote.
        """
        return cls._of(_lastbit.envelope_open(os.fspath(path)))

    def save(self, path: PathLike) -> None:
        """Write it to a file, which is small and can be committed beside a test.

        Parameters
        ----------
        path
            The file.
        """
        _lastbit.envelope_save(self._text, os.fspath(path))

    def widened(self, runs: Mapping[str, Any]) -> "Envelope":
        """The same with more runs, which is the honest way to widen an envelope.

        Parameters
        ----------
        runs
            Further runs by name, as :func:`envelope_of` takes them. They have all metrics and steps of the envelope.
        """
        return self._of(_lastbit.envelope_widened(self._text, _named(runs)))

    def check(self, run: Any, *, level: float = 0.01, metrics: Sequence[str] = ()) -> CheckResult:
        """Compare a run with the envelope; see :func:`check`.

        Parameters
        ----------
        run
            The run.
        level
            The chance of a false alarm is to be at most this.
        metrics
            Metrics to compare, by name or pattern. Default: all.
        """
        return check(run, self, level=level, metrics=metrics)


def envelope_of(
    runs: Mapping[str, Any] | Sequence[Any],
    *,
    metrics: Sequence[str] = (),
    step_key: str | None = None,
    perturbation: str = "",
) -> Envelope:
    """The envelope of runs that differ by rounding alone.

    Parameters
    ----------
    runs
        The runs, or a dictionary of them by name. A run is the path of what it logged (a metrics file or a folder), a
        dictionary of metric -> values, where values belong to the steps 0, 1, 2, ... or are a pair (steps, values), or
        the values of a single metric.
    metrics
        Metrics to read from files; ``*`` stands for any characters, ``?`` for one. Default: all but wall time.
    step_key
        The name under which files have their steps.
    perturbation
        How the runs were perturbed, in words.

    Returns
    -------
    Envelope

    Examples
    --------
    >>> import lastbit
    >>> runs = [{"loss": [2.0, 1.5 + 1e-7 * i, 1.2 + 1e-5 * i * i]} for i in range(8)]
    >>> envelope = lastbit.envelope_of(runs)
    >>> envelope.check({"loss": [2.0, 1.5, 1.2]}).verdict
    'inside'
    >>> envelope.check({"loss": [2.0, 1.5, 1.3]}).verdict
    'outside'
    """
    if not isinstance(runs, Mapping):
        runs = {f"run-{i + 1}": run for i, run in enumerate(runs)}
    return Envelope._of(_lastbit.envelope_of(_named(runs), list(metrics), step_key, perturbation))


def check(
    run: Any,
    envelope: Envelope | PathLike,
    *,
    level: float = 0.01,
    metrics: Sequence[str] = (),
    step_key: str | None = None,
) -> CheckResult:
    """Compare a run with an envelope: bug or rounding?

    Parameters
    ----------
    run
        The path of what it logged (a metrics file or a folder), a dictionary of metric -> values, where values belong
        to the steps 0, 1, 2, ... or are a pair (steps, values), or the values of the envelope's single metric.
    envelope
        An envelope, or the file or folder it is in.
    level
        The chance of a false alarm is to be at most this.
    metrics
        Metrics to compare; ``*`` stands for any characters, ``?`` for one. Default: all but wall time.
    step_key
        The name under which files have their steps.

    Returns
    -------
    CheckResult

    Examples
    --------
    >>> import lastbit
    >>> envelope = lastbit.envelope_of([[1.0, 0.5 + 1e-6 * i] for i in range(8)])
    >>> result = lastbit.check([1.0, 0.6], envelope)
    >>> result.verdict, result.leaves["step"]
    ('outside', 1)
    """
    if not isinstance(envelope, Envelope):
        envelope = Envelope.open(envelope)
    single = envelope.metrics[0] if len(envelope.metrics) == 1 else _VALUE
    if single not in envelope.metrics and not isinstance(run, (str, os.PathLike, Mapping)):
        names = ", ".join(envelope.metrics)
        raise InputError(f"run: found {run!r:.80}, expected a dictionary of metric -> values; the envelope has {names}")
    found = loads(_lastbit.check(_run(run, single), envelope._text, level, list(metrics), step_key))
    return CheckResult(**found)


def _named(runs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(str(name), _run(run, _VALUE)) for name, run in runs.items()]


def _run(run: Any, single: str) -> Any:
    """A run as the extension takes it; a list is the values of the metric ``single``."""
    if isinstance(run, (str, os.PathLike)):
        return os.fspath(run)
    if not isinstance(run, Mapping):
        run = {single: run}
    return [(str(metric), *_steps_and_values(str(metric), values)) for metric, values in run.items()]


def _steps_and_values(metric: str, values: Any) -> tuple[list[int], list[float]]:
    try:
        if isinstance(values, tuple) and len(values) == 2 and all(hasattr(part, "__len__") for part in values):
            steps, values = values
            return [_step(step) for step in steps], [float(value) for value in values]
        found = [float(value) for value in values]
        return list(range(len(found))), found
    except (TypeError, ValueError, OverflowError):
        expected = "a list of numbers, or a pair of whole steps from 0 on and as many numbers"
        raise InputError(f"{metric}: found {values!r:.80}, expected {expected}") from None


def _step(step: Any) -> int:
    found = int(step)
    if found != step or found < 0:
        raise ValueError
    return found
