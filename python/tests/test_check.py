"""Envelopes and checks from Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastbit


def losses(run: int) -> list[float]:
    """A loss whose rounding grows by a fifth each step."""
    rng = np.random.default_rng(run)
    return [2 * 0.97**step + (1e-7 * 1.2**step * rng.normal() if step else 0) for step in range(60)]


@pytest.fixture
def envelope() -> lastbit.Envelope:
    return lastbit.envelope_of([{"loss": losses(i)} for i in range(8)])


def test_rounding_is_inside_and_a_percent_is_not(envelope: lastbit.Envelope) -> None:
    inside = lastbit.check({"loss": losses(20)}, envelope)
    assert (inside.verdict, inside.leaves, inside.runs, inside.level) == ("inside", None, 8, 0.01)
    assert inside.p >= inside.rank_p >= 1 / 9
    bad = [loss * (1.01 if step >= 10 else 1) for step, loss in enumerate(losses(20))]
    outside = envelope.check({"loss": bad})
    assert outside.verdict == "outside" and outside.p <= 0.01
    assert outside.leaves is not None and (outside.leaves["metric"], outside.leaves["step"]) == ("loss", 10)
    assert outside.leaves["value"] == bad[10]
    assert outside.metrics[0]["leaves_at"] == 10
    assert outside.sentence in str(outside) and "loss" in str(outside)


def test_steps_may_be_given_and_a_single_metric_needs_no_name(envelope: lastbit.Envelope) -> None:
    steps = list(range(0, 60, 2))
    found = envelope.check({"loss": (steps, losses(20)[::2])})
    assert found.verdict == "inside"
    assert found.notes == ["loss: the run lacks 30 of 60 steps"]
    assert envelope.check(losses(20)).p == envelope.check({"loss": losses(20)}).p
    assert envelope.check(np.array(losses(20), dtype=np.float32)).verdict == "inside"


def test_what_is_not_finite_is_outside(envelope: lastbit.Envelope) -> None:
    found = envelope.check([loss if step < 50 else float("nan") for step, loss in enumerate(losses(20))])
    assert found.verdict == "outside" and found.leaves is not None
    assert found.leaves["step"] == 50 and np.isnan(found.leaves["value"])


def test_envelopes_are_files_and_are_widened(envelope: lastbit.Envelope, tmp_path: Path) -> None:
    path = tmp_path / "envelope.json"
    envelope.save(path)
    assert lastbit.Envelope.open(path) == lastbit.Envelope.open(tmp_path) == envelope
    wide = envelope.widened({"more-1": {"loss": losses(8)}, "more-2": {"loss": losses(9)}})
    assert wide.runs == [*envelope.runs, "more-1", "more-2"]
    assert wide.check(losses(20)).runs == 10
    assert lastbit.check(losses(20), path) == envelope.check(losses(20))
    path.write_text(path.read_text().replace("2.0", "2.5", 1))
    with pytest.raises(lastbit.LastbitError, match="envelope.json"):
        lastbit.Envelope.open(path)


def test_files_of_runs_are_read_and_the_command_says_the_same(tmp_path: Path, command: Callable[..., dict[str, Any]]) -> None:
    paths = []
    for i in range(9):
        paths.append(tmp_path / f"run-{i}.jsonl")
        rows = [{"step": step, "loss": loss, "lr": 0.1} for step, loss in enumerate(losses(i))]
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    envelope = lastbit.envelope_of({path.stem: path for path in paths[:8]}, perturbation="by hand")
    assert (envelope.metrics, envelope.perturbation) == (["loss", "lr"], "by hand")
    found = lastbit.check(paths[8], envelope)
    envelope.save(tmp_path / "e.json")
    answer = command("check", "run-8.jsonl", "--envelope", "e.json")
    result = answer["results"][0]["result"]
    assert result["verdict"] == found.verdict == "inside"
    assert (result["p"], result["deviation"], result["limit"]) == (found.p, found.deviation, found.limit)
    for run in (paths[8], {"loss": losses(8), "lr": [0.1] * 60, "more": [1.0]}):
        only = lastbit.check(run, envelope, metrics=["loss"])
        assert [row["metric"] for row in only.metrics] == ["loss"]
        assert (only.verdict, only.notes) == ("inside", [])
    with pytest.raises(lastbit.InputError, match="run: found .*, expected a dictionary .*; the envelope has loss, lr"):
        envelope.check(losses(8))


def test_a_run_that_was_not_compared_with_all_is_undecided(envelope: lastbit.Envelope) -> None:
    found = envelope.check(losses(20)[:40])
    assert (found.verdict, found.runs_needed) == ("undecided", None)
    assert found.doubts == ["the run ends at step 39, the envelope at step 59 (loss)"]
    both = lastbit.envelope_of([{"loss": losses(i), "lr": [0.1] * 60} for i in range(8)])
    assert both.check({"loss": losses(20)}).doubts == ["the run has no lr"]
    assert both.check({"loss": losses(20)}, metrics=["lo*"]).verdict == "inside"


def test_an_envelope_of_equal_runs_decides_nothing() -> None:
    equal = lastbit.envelope_of([losses(1) for _ in range(8)])
    assert not equal.has_spread and lastbit.envelope_of([losses(1), losses(2)]).has_spread
    for run in (losses(1), losses(2)):
        found = equal.check(run)
        assert found.verdict == "undecided" and "was the program perturbed?" in found.sentence


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"reward": [1.0]}, "reward"),
        ({"loss": "abc"}, "loss: found 'abc'"),
        ({"loss": ([0.5], [1.0])}, "whole steps"),
        ({"loss": ([1, 0], [1.0, 1.0])}, "increasing steps"),
        ("no/such/run", "no/such/run"),
    ],
)
def test_bad_runs_are_refused(envelope: lastbit.Envelope, run: Any, message: str) -> None:
    with pytest.raises(lastbit.LastbitError, match=message):
        envelope.check(run)


def test_bad_envelopes_are_refused(envelope: lastbit.Envelope, tmp_path: Path) -> None:
    with pytest.raises(lastbit.InputError, match="from 2 to 1000 runs"):
        lastbit.envelope_of([losses(1)])
    with pytest.raises(lastbit.InputError, match="run-1 twice"):
        envelope.widened({"run-1": {"loss": losses(1)}})
    with pytest.raises(lastbit.InputError, match="level: found 0"):
        envelope.check(losses(1), level=0)
    with pytest.raises(lastbit.LastbitError, match="no file"):
        lastbit.Envelope.open(tmp_path / "none.json")
