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
:func:`lastbit.envelope_of` or from ``lastbit envelope``. Further runs are compared with those that the envelope has, and
refused if they are outside: they would be of another program.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lastbit import CheckResult, Envelope, LastbitError, envelope_of

__all__ = ["EnvelopeFile", "UndecidedWarning", "lastbit_envelope"]


class UndecidedWarning(UserWarning):
    """Whether rounding alone has made a run is not decided: too few runs, or not all was compared."""


class EnvelopeFile:
    """The envelope of a test, in a file beside it.

    Attributes
    ----------
    path
        The file.
    """

    def __init__(self, path: Path, runs: int | None) -> None:
        self.path = path / "envelope.json" if path.is_dir() else path
        self._runs = runs

    def check(
        self, run: Any, *, level: float = 0.01, metrics: Sequence[str] = (), strict: bool = False
    ) -> CheckResult:
        """Fail the test if rounding alone has not made this run.

        Parameters
        ----------
        run
            The run, as :func:`lastbit.check` takes it; or a function of the number of the perturbation that trains and
            returns it, where 0 stands for none.
        level
            The chance of a false alarm is to be at most this.
        metrics
            Metrics to compare, by name or pattern. Default: all.
        strict
            Whether to fail also if the answer is "undecided", which otherwise is a warning. With n runs, a run without a
            bug is farther off than all of them, and so undecided at least, with a chance of about 1/(n + 1).
        """
        __tracebackhide__ = True
        if self._runs is not None:
            if callable(run):
                self._record(run, self._runs, level)
            else:
                nothing = f"{self.path}: --lastbit-runs records nothing, for check() was given a run and no function that trains"
                warnings.warn(nothing, stacklevel=2)
        if not self.path.is_file():
            pytest.fail(f"{self.path}: no such file, expected an envelope.\n{_how_to_record(callable(run))}", pytrace=False)
        try:
            envelope = Envelope.open(self.path)
            result = envelope.check(run(0) if callable(run) else run, level=level, metrics=metrics)
        except LastbitError as error:
            pytest.fail(str(error), pytrace=False)
        if result.verdict == "outside" or (strict and result.verdict == "undecided"):
            pytest.fail(_failure(self.path, result, callable(run)), pytrace=False)
        if result.verdict == "undecided":
            warnings.warn(f"{self.path}: {result.sentence}", UndecidedWarning, stacklevel=2)
        return result

    def _record(self, train: Callable[[int], Any], runs: int, level: float) -> None:
        """Adds perturbed runs until the envelope has as many; those that it has stay."""
        __tracebackhide__ = True
        try:
            known = Envelope.open(self.path) if self.path.is_file() else None
            have = len(known.runs) if known else 0
            further = {f"perturbed-{i}": train(i) for i in range(have + 1, runs + 1)}
            if not further:
                return
            if known:
                _refuse_others(self.path, known, further, level / len(further))
            wide = known.widened(further) if known else envelope_of(further, perturbation="by the test")
            if not wide.has_spread:
                found = f"{self.path}: found {len(wide.runs)} runs without any difference"
                pytest.fail(f"{found}, expected that train(run) perturbs the training if run > 0", pytrace=False)
            wide.save(self.path)
        except LastbitError as error:
            pytest.fail(f"{self.path}: {error}", pytrace=False)


def _refuse_others(path: Path, known: Envelope, further: Mapping[str, Any], level: float) -> None:
    """Fails where a further run is of another program than those of the envelope."""
    __tracebackhide__ = True
    for name, run in further.items():
        result = known.check(run, level=level)
        if result.verdict == "outside":
            again = "An envelope has runs of one program. If results are meant to change, delete the file and record it again."
            pytest.fail(f"{path}: not widened, for {name} does not belong to it.\n{result}\n\n{again}", pytrace=False)


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
    """The envelope in a file, whose path is relative to the file of the test.

    Returns
    -------
    Callable
        A function of the path; what it returns has a method :meth:`EnvelopeFile.check`.

    Examples
    --------
    ::

        >>> def test_resume(lastbit_envelope):
        ...     lastbit_envelope("baseline.json").check(train)
    """
    runs = request.config.getoption("--lastbit-runs")
    if runs is not None and not 2 <= runs <= 1000:
        raise pytest.UsageError(f"--lastbit-runs: found {runs}, expected a number from 2 to 1000; 8 is a good start")
    return lambda path: EnvelopeFile(request.path.parent / path, runs)
