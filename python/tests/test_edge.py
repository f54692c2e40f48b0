"""``lastbit.edge``: the command's numbers, a closed form, Ctrl-C, threads."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib

import numpy as np
import pytest

import lastbit

#: Logistic regression with weight decay. The gradient of its loss is bounded, so that a run is bounded exactly if
#: ``|1 - lr * 0.1| <= 1``.
TOML = """
[data]
name = "mnist01"
limit = 32
test-limit = 8
[network]
kind = "mlp"
hidden = []
[optimizer]
name = "sgd"
lr = 4
weight-decay = 0.1
[training]
steps = 100
batch = "full"
precision = "f64"
"""

DIVERGES_AT = 2 / 0.1


@pytest.fixture
def small():
    """The same as a dictionary: a search of a fraction of a second."""
    return tomllib.loads(TOML)


def test_the_numbers_are_those_of_the_command(tmp_path, command, small):
    (tmp_path / "config.toml").write_text(TOML)
    told = command("edge", "config.toml", "--tolerance", "0.3", "--seeds", "0,1", "--out", "told")
    of_file = lastbit.edge(tmp_path / "config.toml", tolerance=0.3, seeds=[0, 1], out=tmp_path / "file", progress=False)
    of_dict = lastbit.edge(small, tolerance=0.3, seeds=(0, 1), out=tmp_path / "dict", progress=False)
    for found in (of_file, of_dict):
        (largest,) = told["edges"]
        assert found.edge == largest["median"] and found.sentence == told["sentence"]
        assert [{"end": "largest", **row} for row in largest["seeds"]] == found.edges
        assert len(found.probes) == sum(len(tried["probes"]) for tried in told["tried"])
        assert found.probes[0]["at"] == told["tried"][0]["probes"][0]["at"] == 4
        assert found.divergence is not None
        assert found.divergence.edge == told["divergence_edge"]["edges"][0]["median"]
        for row in found.divergence.edges:
            assert row["holds"] <= DIVERGES_AT <= row["fails"]
        assert (found.settings, found.over, found.property) == (told["settings"], "lr", "stable")
        assert (found.folder / "record.json").exists() and found.folder.name == os.path.basename(told["folder"])
        assert found.sentence in str(found) and found.divergence.sentence in str(found)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert list(pandas.DataFrame(of_dict.probes)["at"]) == list(polars.DataFrame(of_dict.probes)["at"])


def test_the_three_edges_of_a_linear_regression_are_those_of_its_hessian(tmp_path, command):
    points = np.array([[1.5, 0.5, 1], [1.5, -0.5, -0.5], [-1.5, 0.5, 2], [-1.5, -0.5, 0.25]])
    np.savetxt(tmp_path / "own.csv", points, delimiter=",", header="a,b,y", comments="")
    command("data", "import", "own.csv", "--test", "own.csv", "--target", "y", "--name", "own", "--data", "data")
    config = {
        "data": {"name": "own", "normalization": "none"},
        "network": {"kind": "mlp", "hidden": []},
        "loss": {"name": "half-mse"},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "training": {"steps": 300, "batch": "full", "precision": "f64"},
    }
    x = np.column_stack([points[:, :2], np.ones(4)])
    exact = 2 / np.linalg.eigvalsh(x.T @ x / 4).max()
    found = lastbit.edge(config, tolerance=1e-2, data=tmp_path / "data", out=tmp_path / "out", progress=False)
    assert found.divergence is not None
    for result in (found, found.divergence):
        (bracket,) = result.edges
        assert bracket["holds"] <= exact <= bracket["fails"] <= 1.02 * bracket["holds"]
        assert result.edge == pytest.approx(exact, rel=1e-2)
    # The eigenvalue is exact to rounding, however far the run came.
    assert found.cfl_edge == pytest.approx(exact, rel=1e-12)


def test_a_finished_search_is_taken_from_its_record(tmp_path, small):
    first = lastbit.edge(small, tolerance=0.2, property="stable", out=tmp_path, progress=False)
    seen: list[lastbit.Progress] = []
    again = lastbit.edge(small, tolerance=0.2, property="stable", out=tmp_path, progress=seen.append)
    assert again == first and first.divergence is None
    # Nothing is left to do: no step is counted.
    assert all(progress.done == 0 for progress in seen)
    assert list((tmp_path / "edge").iterdir()) == [first.folder]


def test_the_stable_interval_of_the_weight_decay(tmp_path, small):
    small["optimizer"] = {"name": "sgd", "lr": 1.0, "weight-decay": 0.1}
    found = lastbit.edge(small, over="alpha", property="bounded", tolerance=0.1, out=tmp_path, progress=False)
    assert (found.over, found.property, found.divergence, found.cfl_edge) == ("alpha", "bounded", None, None)
    (row,) = found.edges
    # |1 - lr alpha| <= 1.
    assert row["end"] == "largest" and row["holds"] <= 2 <= row["fails"]
    assert found.edge == pytest.approx(2, rel=0.1)


def test_orders_of_the_mini_batches_give_an_interval_of_the_median(tmp_path, small):
    small["training"] |= {"batch": 16}
    found = lastbit.edge(small, tolerance=0.5, repeats=6, property="bounded", out=tmp_path, progress=False)
    (median,) = found.medians
    # 1 - 2/2^6.
    assert median["confidence"] == 0.96875 and median["low"] <= median["high"]
    assert median["low"] <= DIVERGES_AT <= median["high"]
    assert len({row["batch_seed"] for row in found.probes}) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": -1}, "tolerance: found -1, expected a number greater than 0"),
        ({"tolerance": 2.0}, "tolerance: found 2, expected less than 1"),
        ({"over": "momentum"}, "over: found momentum, expected lr or alpha"),
        ({"property": "flat"}, "property: found flat, expected one of stable, bounded"),
        ({"from_": 0.1}, "from_: found it without to, expected both ends, or none"),
        ({"from_": -0.1, "to": 1.0}, "from_: found -0.1"),
        ({"from_": 0.5, "to": 0.6}, "from_ and to: found stable wherever it was tried"),
        ({"seeds": [1, 1]}, "seeds: found 1 twice, expected each once"),
        ({"repeats": 3}, "repeats: found 3, expected 1, or shuffled batches"),
        ({"steps": 3}, "steps: found 3, expected a whole number from 64"),
        ({"device": "tpu"}, "device: found tpu, expected one of"),
        ({"set": {"optimizer.lr": -1.0}}, "optimizer"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(tmp_path, small, arguments, message):
    with pytest.raises(lastbit.InputError) as refused:
        lastbit.edge(small, out=tmp_path, progress=False, **arguments)
    assert message in str(refused.value)


def test_other_python_threads_run_meanwhile_and_progress_is_told(tmp_path, small):
    counts, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    seen: list[lastbit.Progress] = []
    before, started = counts[0], time.monotonic()
    try:
        lastbit.edge(small, steps=300, tolerance=0.3, property="stable", out=tmp_path, progress=seen.append)
    finally:
        seconds, during = time.monotonic() - started, counts[0] - before
        done.set()
        thread.join()
    # A thousand a second if nothing holds it up; with the GIL held it would be none.
    assert during > 20 * seconds, (during, seconds)
    assert seen and seen[-1].label == "edge"


def test_an_exception_of_the_progress_function_ends_the_search(tmp_path, small):
    def stop(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lastbit.edge(small, steps=500_000, out=tmp_path, progress=stop)


# A shell may have had SIGINT ignored, which processes inherit.
SCRIPT = """
import json, signal, sys, lastbit
signal.signal(signal.SIGINT, signal.default_int_handler)
config, out = json.loads(sys.argv[1]), sys.argv[2]
try:
    lastbit.edge(config, steps=500, tolerance=0.02, property="stable", out=out, progress=False)
except KeyboardInterrupt as stopped:
    print(stopped)
    sys.exit(130)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to another process")
def test_ctrl_c_keeps_finished_probes_and_the_same_call_resumes(tmp_path, small):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(small), str(out)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    # Some probes are finished, and others are not.
    while len(list(out.glob("edge/*/cells/*.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Interrupted; finished probes are saved. The same call resumes from there." in told
    kept = {path: path.stat().st_mtime_ns for path in out.glob("edge/*/cells/*.json")}
    arguments = {"steps": 500, "tolerance": 0.02, "property": "stable", "progress": False}
    resumed = lastbit.edge(small, out=out, **arguments)
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    whole = lastbit.edge(small, out=tmp_path / "whole", **arguments)
    assert resumed.probes == whole.probes and resumed.edges == whole.edges
    assert np.isfinite(resumed.edge) and len(resumed.probes) > 2
