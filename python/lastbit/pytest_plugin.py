"""A pytest plugin: tests that compare a training with runs that differ by rounding alone.

::

    def test_resume(lastbit_envelope):
        lastbit_envelope("baseline.json").check(train)

``train(run)`` returns what :func:`lastbit.check` takes, such as ``{"loss": losses}``. The test calls ``train(0)``. With
``pytest --lastbit-runs 8`` it first calls ``train(1)``, ``train(2)``, ... until the envelope beside the test has 8 runs;
each number is to perturb the training at the level of rounding in a way of its own::

    def train(run):
        ...
        if run > 0:
            lastbit.torch.perturb(optimizer, "ulps", seed=run)

Instead of a function, ``check`` takes the results of a training, too; their envelope comes from
:func:`lastbit.envelope_of` or from ``lastbit envelope``.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastbit import CheckResult, Envelope, InputError, LastbitError, envelope_of

__all__ = ["EnvelopeFile", "UndecidedWarning", "lastbit_envelope"]


class UndecidedWarning(UserWarning):
    """A run is farther off than all runs of its envelope, but these are too few for the level."""


class EnvelopeFile:
    """The envelope of a test, in a file beside it.

    Attributes
    ----------
    path
        The file.
    """

    def __init__(self, path: Path, runs: int | None) -> None:
        self.path = path
        self._runs = runs

    def check(self, run: Any, *, level: float = 0.01, strict: bool = False) -> CheckResult:
        """Fail the test if rounding alone has not made this run.

        Parameters
        ----------
        run
            The run, as :func:`lastbit.check` takes it; or a function of the number of the perturbation that trains and
            returns it, where 0 stands for none.
        level
            The chance of a false alarm is to be at most this.
        strict
            Whether to fail also if the envelope has too few runs to decide, which otherwise is a warning.
        """
        __tracebackhide__ = True
        if self._runs is not None:
            self._record(run, self._runs)
        if not self.path.is_file():
            pytest.fail(f"{self.path}: no such file, expected an envelope.\n{_how_to_record(callable(run))}", pytrace=False)
        try:
            result = Envelope.open(self.path).check(run(0) if callable(run) else run, level=level)
        except LastbitError as error:
            pytest.fail(str(error), pytrace=False)
        if result.verdict == "outside" or (strict and result.verdict == "undecided"):
            pytest.fail(_failure(self.path, result, callable(run)), pytrace=False)
        if result.verdict == "undecided":
            warnings.warn(f"{self.path}: {result.sentence}", UndecidedWarning, stacklevel=2)
        return result

    def _record(self, train: Any, runs: int) -> None:
        """Adds perturbed runs until the envelope has as many; those that it has stay."""
        __tracebackhide__ = True
        if not callable(train):
            return
        try:
            known = Envelope.open(self.path) if self.path.is_file() else None
            have = len(known.runs) if known else 0
            further = {f"perturbed-{i}": train(i) for i in range(have + 1, runs + 1)}
            if not further:
                return
            wide = known.widened(further) if known else envelope_of(further, perturbation="by the test")
            wide.save(self.path)
        except InputError as error:
            pytest.fail(f"{self.path}: {error}", pytrace=False)


def _how_to_record(trains: bool) -> str:
    if trains:
        return "`pytest --lastbit-runs 8` records it: it trains 8 times, each perturbed at the level of rounding."
    return (
        "Give check() a function that trains, and `pytest --lastbit-runs 8` records it; or make it with "
        "`lastbit envelope` or lastbit.envelope_of(runs).save(path)."
    )


def _failure(path: Path, result: CheckResult, trains: bool) -> str:
    more = 2 * result.runs if result.runs_needed is None else result.runs_needed
    how = f"`pytest --lastbit-runs {more}`" if trains else "Envelope.widened(runs)"
    widen = (
        "If no bug is found, widen the envelope by more runs of the version that made it, never by a tolerance: "
        f"{how} adds perturbed runs. If results are meant to change, delete the file and record it again."
    )
    return f"{path}\n{result}\n\n{widen}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--lastbit-runs``."""
    parser.getgroup("lastbit").addoption(
        "--lastbit-runs",
        type=int,
        metavar="N",
        help="record envelopes of tests, or widen them, until they have N runs that differ by rounding",
    )


@pytest.fixture
def lastbit_envelope(request: pytest.FixtureRequest) -> Callable[[str], EnvelopeFile]:
    """The envelope in a file, whose path is relative to the file of the test."""
    runs = request.config.getoption("--lastbit-runs")
    if runs is not None and not 2 <= runs <= 1000:
        raise pytest.UsageError(f"--lastbit-runs: found {runs}, expected a number from 2 to 1000; 8 is a good start")
    return lambda path: EnvelopeFile(request.path.parent / path, runs)
