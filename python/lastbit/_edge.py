"""The edge of stability of a training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lastbit import _lastbit
from lastbit._json import loads
from lastbit._progress import Progress, Shower
from lastbit._result import Result
from lastbit._train import PathLike, changes, source

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class EdgeResult(Result):
    """Where the stability of a training ends.

    Tables are lists of dictionaries, as ``pandas.DataFrame`` and ``polars.DataFrame`` take them.

    Attributes
    ----------
    edge
        Largest value at which the property holds: the middle of its bracket, the median over the searches. None if no
        search found it.
    smallest
        Smallest value at which it holds, where there is one: a weight decay below it leaves the minimum too sharp.
    cfl_edge
        Of a learning rate, the edge that the sharpness predicts where the largest stable probe ended (``2/lambda_max``
        for gradient descent), the median over the searches; otherwise None.
    divergence
        The search for the edge where runs stop being bounded, if both were asked for; otherwise None.
    over, property
        What was varied: ``"lr"`` or ``"alpha"``; what holds on one side: ``"stable"`` or ``"bounded"``.
    sentence
        The edges in words.
    edges
        One row per edge and search: ``end`` (``"largest"`` or ``"smallest"``), ``seed``, ``batch_seed``, ``edge``, its
        bracket ``holds`` and ``fails``, ``relative_width``, ``fails_verdict``, and where the probe at ``holds`` ended:
        ``predicted`` (the CFL edge), ``sharpness``, ``edge_ratio``, ``gradient_norm``.
    medians
        With ``repeats``, one row per seed: the interval ``low`` to ``high`` of the median edge over orders of the
        mini-batches, and its ``confidence``.
    probes
        One row per probe: ``seed``, ``batch_seed``, ``at``, ``verdict``, ``growth_per_step``,
        ``growth_standard_error``, ``steps``, ``unstable_share``, ``diverged_at``, ``loss``, ``sharpness``,
        ``gradient_norm``.
    why_no_edge
        Why searches found no edge, one sentence each.
    notes
        What was left out of the configuration.
    settings
        The settings, complete.
    folder
        Folder of the record with its figures.
    """

    edge: float | None
    smallest: float | None
    cfl_edge: float | None
    divergence: "EdgeResult | None"
    over: str
    property: str
    sentence: str
    edges: Rows = field(repr=False)
    medians: Rows = field(repr=False)
    probes: Rows = field(repr=False)
    why_no_edge: list[str]
    notes: list[str]
    settings: dict[str, Any] = field(repr=False)
    folder: Path

    def __str__(self) -> str:
        own = [self.sentence] if self.sentence else [f"no edge: {why}." for why in self.why_no_edge]
        if self.divergence is not None:
            own.append(str(self.divergence))
        return "\n".join([*own, *(f"Note: {note}." for note in self.notes)])


def edge(
    config: PathLike | Mapping[str, Any],
    *,
    steps: int | None = None,
    at_most: int | None = None,
    tolerance: float = 0.01,
    over: str = "lr",
    property: str | None = None,
    from_: float | None = None,
    to: float | None = None,
    seeds: Sequence[int] = (),
    repeats: int = 1,
    twins: bool = False,
    set: Mapping[str, Any] | None = None,
    device: str | None = None,
    data: PathLike | None = None,
    out: PathLike = "lastbit-out",
    fresh: bool = False,
    progress: bool | Callable[[Progress], object] = True,
) -> EdgeResult:
    """Search the edge of stability of a training: the largest stable learning rate, or the stable weight decays.

    Every probe is a run from the same initial weights with its own learning rate, and gets a verdict. A learning rate
    has three edges: the growth edge (runs stop being stable), the CFL edge (by the sharpness where the last stable run
    ended) and the divergence edge (runs stop being bounded).

    Every probe is saved: the same call resumes after Ctrl-C, and takes finished searches from ``out``. Other Python
    threads run meanwhile.

    Parameters
    ----------
    config
        The settings of a training, as for :func:`lastbit.train`: the path of a TOML file, or a dictionary.
    steps, at_most
        Steps of a probe, and the most steps of one whose verdict is undecided. Default: those of the configuration;
        four times as many.
    tolerance
        Relative width of the final bracket.
    over
        ``"lr"`` or ``"alpha"`` (weight decay).
    property
        Search only for the edge where runs stop being ``"stable"``, or ``"bounded"``. Default: both for a learning
        rate; ``"stable"`` for a weight decay, or between ``from_`` and ``to``.
    from_, to
        The ends of the search. Default: by doubling and halving, from the configuration's value.
    seeds
        Seeds of the initial weights. Default: those of the configuration.
    repeats
        Orders of the mini-batches to search with, for an interval of the median edge.
    twins
        Whether a copy perturbed by one ulp runs beside each probe, for its curve.
    set
        Changes to the settings, such as ``{"training.batch": 16}``.
    device
        ``"cpu"`` or ``"cuda"``.
    data
        Folder of the data sets. Default: that of the command.
    out
        Folder of records.
    fresh
        Whether to compute again what is in ``out``.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    EdgeResult

    Examples
    --------
    >>> import lastbit, tempfile
    >>> config = {
    ...     "data": {"name": "mnist01", "limit": 32, "test-limit": 8},
    ...     "network": {"kind": "mlp", "hidden": []},
    ...     "optimizer": {"name": "sgd", "lr": 1, "weight-decay": 0.1},
    ...     "training": {"steps": 64, "batch": "full", "precision": "f64"},
    ... }
    >>> with tempfile.TemporaryDirectory() as out:
    ...     result = lastbit.edge(config, tolerance=0.2, property="bounded", out=out)

    This regression is bounded while ``lr * weight_decay < 2``:

    >>> bracket = result.edges[0]
    >>> bracket["holds"] <= 20 <= bracket["fails"]
    True
    """
    path, settings = source(config)
    with Shower(progress) as shower:
        text = _lastbit.edge(
            path,
            settings,
            over=over,
            property=property,
            from_=from_,
            to=to,
            tolerance=tolerance,
            steps=steps,
            at_most=at_most,
            seeds=list(seeds),
            repeats=repeats,
            twins=twins,
            set=changes(set or {}),
            device=device,
            data=data,
            out=out,
            fresh=fresh,
            show=shower.show,
        )
    found = loads(text)
    other = found.pop("divergence_edge", None)
    return _result(found, None if other is None else _result(other, None))


def _result(found: dict[str, Any], divergence: EdgeResult | None) -> EdgeResult:
    ends = {end["end"]: end for end in found["edges"]}
    largest, smallest = ends.get("largest"), ends.get("smallest")
    edges = [{"end": name, **row} for name, end in ends.items() for row in end["seeds"]]
    predicted = [row["predicted"] for row in edges if row["end"] == "largest" and row["predicted"] is not None]
    is_growth = found["over"] == "dt" and found["property"] == "stable"
    return EdgeResult(
        edge=None if largest is None else largest["median"],
        smallest=None if smallest is None else smallest["median"],
        cfl_edge=float(np.median(predicted)) if is_growth and predicted else None,
        divergence=divergence,
        over="lr" if found["over"] == "dt" else found["over"],
        property=found["property"],
        sentence=found["sentence"],
        edges=edges,
        medians=found.get("medians", []),
        probes=[_probe(tried, probe) for tried in found["tried"] for probe in tried["probes"]],
        why_no_edge=[tried["why_no_edge"] for tried in found["tried"] if tried["why_no_edge"] is not None],
        # Both searches have the same ones.
        notes=[] if found["property"] == "bounded" and divergence is None else found["notes"],
        settings=found["settings"],
        folder=Path(found["folder"]),
    )


def _probe(tried: dict[str, Any], probe: dict[str, Any]) -> dict[str, Any]:
    verdict = probe["verdict"]
    row = {"seed": tried["seed"], "batch_seed": tried.get("batch_seed"), "at": probe["at"], "verdict": verdict["kind"]}
    row |= {name: value for name, value in verdict.items() if name not in ("kind", "doubt")}
    return row | {name: value for name, value in probe.items() if name not in ("at", "verdict")}
