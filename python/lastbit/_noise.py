"""Is a gain larger than the noise?"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lastbit import _lastbit
from lastbit._errors import InputError
from lastbit._json import table
from lastbit._result import Result

Rows = list[dict[str, Any]]
_Runs = list[tuple[str, list[tuple[str | None, float]]]]


@dataclass(frozen=True)
class NoiseResult(Result):
    """The noise floor of groups of runs, and the verdict on the gains between them.

    Tables are lists of dictionaries, as ``pandas.DataFrame`` and ``polars.DataFrame`` take them.

    Attributes
    ----------
    significant
        Whether every gain in question is significant.
    verdict
        The verdict, in sentences.
    equivalent
        Whether all groups compared are equivalent, if ``equivalent`` was given; otherwise None.
    between_two_runs
        Largest difference to expect between two single runs of one method.
    groups
        One row per group: ``group``, ``n``, ``mean`` with ``mean_interval`` (Student's t) and ``mean_bca``
        (bootstrap), ``sigma`` (standard deviation) with ``sigma_interval`` (chi-square) and ``sigma_bca``, ``min``,
        ``max``, ``detectable`` (minimum detectable effect of as many runs per side), ``runs_needed`` for ``gain``.
    comparisons
        One row per comparison: ``base``, ``new``, ``paired``, ``n``, ``gain`` with ``gain_interval`` and ``gain_bca``,
        ``p`` (permutation test, two-sided), ``p_holm`` (Holm-adjusted), ``p_t`` (t-test), ``detectable``,
        ``runs_needed``.
    targets
        One row per group that was tested against ``below`` or ``above``.
    rounding_shares
        Share of rounding in the variance of the other groups, if ``last_bit`` was given.
    grid
        Standard deviations of a grid of seeds and roundings, if ``grid`` was given.
    plan
        The sequential study, if ``plan`` was given.
    """

    significant: bool
    verdict: list[str]
    equivalent: bool | None
    between_two_runs: float | None
    groups: Rows = field(repr=False)
    comparisons: Rows = field(repr=False)
    targets: Rows = field(repr=False)
    rounding_shares: Rows = field(repr=False)
    grid: dict[str, Any] | None = field(repr=False)
    plan: dict[str, Any] | None = field(repr=False)

    def __str__(self) -> str:
        groups = {"group": "group", "n": "n", "mean": "mean", "sigma": "sigma", "sigma_interval": "interval"}
        parts = [table(self.groups, groups)]
        if self.comparisons:
            names = {"base": "base", "new": "new", "gain": "gain", "gain_interval": "interval", "p": "p"}
            names |= {"p_holm": "p (Holm)", "detectable": "detectable"}
            parts.append(table(self.comparisons, names))
        return "\n\n".join([*parts, "\n".join(self.verdict)])


def noise(
    runs: Any,
    *,
    compare: tuple[str, str] | None = None,
    gain: float | None = None,
    below: float | None = None,
    above: float | None = None,
    equivalent: float | None = None,
    last_bit: str | None = None,
    grid: bool = False,
    unpaired: bool = False,
    lower_is_better: bool = False,
    metric: str | None = None,
    at: int | str = "last",
    plan: int | None = None,
    boundary: str = "obrien-fleming",
    level: float = 0.05,
    power: float = 0.8,
    resamples: int = 9999,
    seed: int = 0,
) -> NoiseResult:
    """Judge whether gains between groups of runs are larger than the noise of seeds and rounding.

    Runs of two groups with the same seed are paired. A gain is significant if a permutation test says so (sign flips
    of pairs, otherwise a two-sample test), two-sided and Holm-adjusted for several comparisons. With n pairs the
    smallest p is 2/2^n: fewer than 6 pairs are never significant at 5 %.

    Parameters
    ----------
    runs
        The results: a dictionary of group -> values, or of group -> {seed: value}; a table with the columns ``group``,
        ``value`` and optionally ``seed`` (pandas, polars, or a dictionary of columns); or the path of a CSV file with
        these columns. Or the folder of an envelope, or a list of such folders: the runs of each are a group with the
        name of the folder. They differ by rounding alone, so that a significant gain is larger than what rounding
        does; other seeds may move it more.
    compare
        The two groups to compare, base first. Default: every group with the first.
    gain
        A gain to test or to plan for.
    below, above
        Is the mean of each group below (above) this value?
    equivalent
        Do the groups differ by less than this? Two one-sided t-tests.
    last_bit
        The group whose runs differ only in rounding.
    grid
        Whether groups differ only in rounding and share their seeds: splits the variance.
    unpaired
        Whether seeds are left aside.
    lower_is_better
        Whether a lower value is a gain.
    metric
        What the values are called. Of envelopes: the metric whose values are taken; default: the only one.
    at
        Of envelopes: the step of the values, ``"last"`` for the last that all runs have, or ``"best"`` for the best
        value of each run.
    plan, boundary
        Number of looks of a sequential study that finds ``gain``, and how it spreads the level over them:
        ``"obrien-fleming"`` or ``"pocock"``.
    level
        Significance level; intervals have the confidence 1 - level.
    power
        Power, for minimum detectable effects and numbers of runs.
    resamples, seed
        Bootstrap resamples and random permutations, and their seed.

    Returns
    -------
    NoiseResult

    Examples
    --------
    >>> import lastbit
    >>> base = {0: 93.1, 1: 93.4, 2: 93.2, 3: 93.0, 4: 93.3, 5: 93.2}
    >>> new = {0: 93.5, 1: 93.7, 2: 93.6, 3: 93.5, 4: 93.6, 5: 93.6}
    >>> result = lastbit.noise({"base": base, "new": new})
    >>> result.significant, result.comparisons[0]["p"]
    (True, 0.03125)
    """
    _refuse_conflicts(
        {
            "below": {"above": above, "compare": compare, "equivalent": equivalent, "grid": grid} if below is not None else {},
            "above": {"compare": compare, "equivalent": equivalent, "grid": grid} if above is not None else {},
            "grid": {"compare": compare, "last_bit": last_bit, "equivalent": equivalent} if grid else {},
        }
    )
    if plan is not None and gain is None:
        raise InputError("plan: found it without gain, expected both: a plan is for a gain")
    if compare is not None and (isinstance(compare, str) or len(compare) != 2):
        raise InputError(f"compare: found {compare!r}, expected two groups, (base, new)")
    text = _lastbit.noise(
        _table(runs),
        metric=metric,
        at=str(at),
        level=level,
        power=power,
        gain=gain,
        lower_is_better=lower_is_better,
        below=below,
        above=above,
        equivalent=equivalent,
        plan=plan,
        boundary=boundary,
        rounding=[] if last_bit is None else [last_bit],
        compare=None if compare is None else list(compare),
        pairs=not unpaired,
        grid=grid,
        resamples=resamples,
        seed=seed,
    )
    found = json.loads(text)
    verdict = found.pop("verdict")
    return NoiseResult(verdict=verdict.pop("sentences"), **verdict, **found)


def _refuse_conflicts(conflicts: Mapping[str, Mapping[str, object]]) -> None:
    for name, others in conflicts.items():
        for other, value in others.items():
            if value is not None and value is not False:
                raise InputError(f"{name}: found it with {other}, expected one of the two")


def _table(runs: Any) -> list[str] | _Runs:
    if isinstance(runs, (str, os.PathLike)):
        return [os.fspath(runs)]
    if isinstance(runs, (list, tuple)) and runs and all(isinstance(path, (str, os.PathLike)) for path in runs):
        return [os.fspath(path) for path in runs]
    columns = _columns(runs)
    if columns is not None:
        return _of_columns(columns)
    if isinstance(runs, Mapping):
        return [(str(name), _of_group(str(name), values)) for name, values in runs.items()]
    raise InputError(
        f"runs: found {type(runs).__name__}, expected a dictionary of groups, a table with the columns group, value "
        "and seed, the path of a CSV, or folders of envelopes"
    )


def _columns(runs: Any) -> Mapping[str, Any] | None:
    """The runs, if they are a table: a data frame, or a dictionary of columns."""
    names = getattr(runs, "columns", None) if not isinstance(runs, Mapping) else runs
    if names is None:
        return None
    by_lower = {str(name).lower(): name for name in names}
    if isinstance(runs, Mapping) and not (by_lower.keys() >= {"group", "value"} and by_lower.keys() <= {"group", "value", "seed"}):
        return None
    for name in ("group", "value"):
        if name not in by_lower:
            raise InputError(
                f'runs: found no column "{name}" among "{", ".join(map(str, names))}", expected the columns group, '
                "value and, for pairs, seed"
            )
    return {name: runs[by_lower[name]] for name in ("group", "value", "seed") if name in by_lower}


def _of_columns(columns: Mapping[str, Any]) -> _Runs:
    groups = [str(name) for name in columns["group"]]
    values = [_number(value) for value in columns["value"]]
    seeds = [_seed(seed) for seed in columns["seed"]] if "seed" in columns else [None] * len(values)
    if not len(groups) == len(values) == len(seeds):
        raise InputError(f"runs: found columns of {len(groups)}, {len(values)} and {len(seeds)} entries, expected one length")
    found: dict[str, list[tuple[str | None, float]]] = {}
    for group, seed, value in zip(groups, seeds, values):
        found.setdefault(group, []).append((seed, value))
    return list(found.items())


def _of_group(name: str, values: Any) -> list[tuple[str | None, float]]:
    if isinstance(values, Mapping):
        return [(_seed(seed), _number(value)) for seed, value in values.items()]
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"runs: found {values!r} in group {name}, expected its values or {{seed: value}}")
    return [(None, _number(value)) for value in values]


def _number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise InputError(f"runs: found {value!r} as a value, expected a number") from None


def _seed(seed: Any) -> str:
    # A column of whole numbers with a gap is one of floats to pandas.
    return str(int(seed)) if isinstance(seed, float) and seed.is_integer() else str(seed)
