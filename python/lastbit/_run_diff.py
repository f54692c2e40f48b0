"""Where two runs first differ."""

import json
from dataclasses import dataclass, field
from typing import Any

from lastbit._json import loads, table
from lastbit._result import Result

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RunDiffResult(Result):
    """Two runs, compared at the steps that both have.

    Tables are lists of dictionaries, as ``pandas.DataFrame`` and ``polars.DataFrame`` take them.

    Attributes
    ----------
    identical
        Whether nothing differs: no common step, and no logged metric.
    verdict
        The answer in words.
    first_different_step, last_identical_step
        The first common step that differs, and the last common step before it; None where there is none. Between the
        two nothing is known.
    tensors
        One row per tensor that differs at ``tensors_step``, in the order of the model where that is known:
        ``name``, ``rel_l1``, ``max_ulps``, ``entries_different``, ``entries``, ``not_comparable``; None where values
        were not saved.
    tensors_step
        The step of ``tensors``: the first that differs, or the first after it at which single tensors are known.
    growth_per_step, growth_standard_error
        Rate in e-folds per step at which the distance of all parameters grows from the first difference on, fitted
        while it is at most 0.01; None where there are too few steps.
    no_growth
        Why there is no rate.
    steps
        One row per step, of very many some: ``step``, ``status`` (``"identical"``, ``"different"``,
        ``"files-differ"``: not compared tensor by tensor), ``by`` (``"hash"``, ``"tensor-hashes"``, ``"bytes"``,
        ``"values"``), ``tensors``, ``tensors_different``, ``rel_l1``, ``distance`` (norm of the difference over the
        norm of A), ``max_ulps``, ``edge_ratio_a``, ``edge_ratio_b``.
    common_steps, different_steps
        How many steps both have, and at how many of them they differ.
    identical_again_at
        A later step at which they are identical again.
    first_metric
        The first logged value that differs: ``metric``, ``step``, ``last_equal_step``, ``a``, ``b``.
    metrics
        Names of the metrics that were compared.
    edge
        The edge ratios of A and B where they first differ or near that: ``step``, ``edge_ratio``, ``sharpness``.
    settings
        One row per setting that differs: ``key``, ``a``, ``b``.
    unit
        What steps are: ``"step"`` or ``"epoch"``.
    notes
        What a reader should know.
    """

    identical: bool
    verdict: str
    first_different_step: int | None
    last_identical_step: int | None
    tensors: Rows = field(repr=False)
    tensors_step: int | None
    growth_per_step: float | None
    growth_standard_error: float | None
    no_growth: str | None = field(repr=False)
    steps: Rows = field(repr=False)
    common_steps: int
    different_steps: int
    identical_again_at: int | None
    first_metric: dict[str, Any] | None
    metrics: list[str] = field(repr=False)
    edge: list[dict[str, Any] | None] = field(repr=False)
    settings: Rows = field(repr=False)
    unit: str = field(repr=False)
    notes: list[str] = field(repr=False)

    def __str__(self) -> str:
        parts = [self.verdict]
        if self.tensors:
            columns = {"name": "tensor", "rel_l1": "RelL1", "max_ulps": "max ulps", "entries_different": "differ", "entries": "of"}
            parts.append(table(self.tensors[:_SHOWN], columns))
        if self.settings:
            parts.append(table(self.settings[:_SHOWN], {"key": "setting", "a": "A", "b": "B"}))
        return "\n\n".join(parts)


#: Rows of a table that are printed.
_SHOWN = 20


def run_diff_result(text: str) -> RunDiffResult:
    """The result of what ``lastbit diff RUN_A RUN_B --json`` prints."""
    found, names = loads(text), json.loads(text)
    tensors = found["tensors"] or {"different": [], "step": None}
    fitted = found["growth"].get("fitted", {})
    return RunDiffResult(
        identical=found["identical"],
        verdict=found["verdict"],
        first_different_step=found["first_different_step"],
        last_identical_step=found["last_identical_step"],
        tensors=tensors["different"],
        tensors_step=tensors["step"],
        growth_per_step=fitted.get("per_step"),
        growth_standard_error=fitted.get("standard_error"),
        no_growth=found["growth"].get("none", {}).get("why"),
        steps=[_step(row) for row in found["steps"]],
        common_steps=found["common_steps"],
        different_steps=found["different_steps"],
        identical_again_at=found["identical_again_at"],
        first_metric=found["first_metric"],
        metrics=names["metrics"],
        edge=found["edge"],
        # Values of settings are text, whatever they say.
        settings=names["settings"],
        unit=found["unit"],
        notes=found["notes"],
    )


def _step(row: dict[str, Any]) -> dict[str, Any]:
    distance = row["distance"] or dict.fromkeys(["rel_l1", "relative", "max_ulps"])
    flat = {key: row[key] for key in ("step", "status", "by", "tensors", "tensors_different")}
    flat |= {"rel_l1": distance["rel_l1"], "distance": distance["relative"], "max_ulps": distance["max_ulps"]}
    return flat | {"edge_ratio_a": row["edge_ratio"][0], "edge_ratio_b": row["edge_ratio"][1]}
