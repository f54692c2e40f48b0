"""The pytest plugin, in test runs of its own."""

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

import lastbit

pytest_plugins = ["pytester"]

#: Where the package is installed, pytest has found the plugin itself.
IS_INSTALLED = any(found.value == "lastbit.pytest_plugin" for found in entry_points(group="pytest11"))
LOADED = [] if IS_INSTALLED else ["-p", "lastbit.pytest_plugin"]

TRAINING = """
import random

def train(run, rate=1.0):
    noise = random.Random(run)
    return {"loss": [2 * 0.97**step * rate + (1e-7 * 1.2**step * noise.gauss(0, 1) if run and step else 0)
                     for step in range(40)]}
"""


def run(pytester: pytest.Pytester, test: str, *arguments: str) -> Any:
    pytester.makepyfile(test_training=TRAINING + test)
    return pytester.runpytest(*LOADED, *arguments)


OF_A_FUNCTION = """
def test_training(lastbit_envelope):
    lastbit_envelope("baseline.json").check(train)
"""


def test_an_envelope_is_recorded_checked_and_widened(pytester: pytest.Pytester) -> None:
    missing = run(pytester, OF_A_FUNCTION)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*baseline.json: no such file, expected an envelope.*", "*pytest --lastbit-runs 8*"])
    path = pytester.path / "baseline.json"
    assert not path.exists()
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "4").assert_outcomes(passed=1)
    recorded = path.read_bytes()
    assert lastbit.Envelope.open(path).runs == [f"perturbed-{i}" for i in range(1, 5)]
    run(pytester, OF_A_FUNCTION).assert_outcomes(passed=1)
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "3").assert_outcomes(passed=1)
    assert path.read_bytes() == recorded
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "8").assert_outcomes(passed=1)
    assert lastbit.Envelope.open(path).runs == [f"perturbed-{i}" for i in range(1, 9)]


def test_a_bug_fails_with_what_left_where_and_how_to_widen(pytester: pytest.Pytester) -> None:
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "8").assert_outcomes(passed=1)
    bug = """
def test_training(lastbit_envelope):
    lastbit_envelope("baseline.json").check(train(0, rate=1.01))
"""
    failed = run(pytester, bug)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "*baseline.json",
            "*Outside: loss leaves at step 0: it is 2.02, where all 8 runs of the envelope have 2.*",
            "*8 runs alone show no p below 11.1 %*",
            "*widen the envelope by more runs *never by a tolerance*",
        ]
    )


def test_too_few_runs_to_decide_are_a_warning_or_a_failure(pytester: pytest.Pytester) -> None:
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "8").assert_outcomes(passed=1)
    envelope = lastbit.Envelope.open(pytester.path / "baseline.json")
    own: dict[str, Any] = {}
    exec(TRAINING, own)

    def off(size: float) -> list[float]:
        return [loss + size * (step == 30) for step, loss in enumerate(own["train"](0)["loss"])]

    size = next(size for size in (1e-6 * 1.05**i for i in range(1000)) if envelope.check(off(size)).verdict == "undecided")
    test = f"""
def test_training(lastbit_envelope):
    lastbit_envelope("baseline.json").check([x + {size!r} * (i == 30) for i, x in enumerate(train(0)["loss"])], strict=STRICT)
"""
    undecided = run(pytester, test.replace("STRICT", "False"))
    undecided.assert_outcomes(passed=1, warnings=1)
    undecided.stdout.fnmatch_lines(["*UndecidedWarning: *farther off than all 8 runs*would decide*"])
    strict = run(pytester, test.replace("STRICT", "True"))
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["*Undecided: *"])


def test_a_run_that_does_not_fit_fails_in_a_sentence(pytester: pytest.Pytester) -> None:
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "4").assert_outcomes(passed=1)
    test = """
def test_training(lastbit_envelope):
    lastbit_envelope("baseline.json").check({"reward": [1.0]})
"""
    failed = run(pytester, test)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*run: found the metrics reward, expected some of the envelope: loss*"])
    assert run(pytester, OF_A_FUNCTION, "--lastbit-runs", "1").ret == pytest.ExitCode.TESTS_FAILED


def test_runs_of_another_program_do_not_widen_an_envelope(pytester: pytest.Pytester) -> None:
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "8").assert_outcomes(passed=1)
    recorded = (pytester.path / "baseline.json").read_bytes()
    other = OF_A_FUNCTION.replace("check(train)", "check(lambda run: train(run, rate=1.01))")
    failed = run(pytester, other, "--lastbit-runs", "10")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*not widened, for perturbed-9 does not belong to it.", "*Outside: *"])
    assert (pytester.path / "baseline.json").read_bytes() == recorded


def test_runs_that_are_not_perturbed_are_not_recorded(pytester: pytest.Pytester) -> None:
    test = OF_A_FUNCTION.replace("check(train)", "check(lambda run: train(0))")
    failed = run(pytester, test, "--lastbit-runs", "4")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*found 4 runs without any difference, expected that train(run) perturbs the training*"])
    assert not (pytester.path / "baseline.json").exists()


def test_a_result_records_nothing_and_says_so(pytester: pytest.Pytester) -> None:
    run(pytester, OF_A_FUNCTION, "--lastbit-runs", "4").assert_outcomes(passed=1)
    warned = run(pytester, OF_A_FUNCTION.replace("check(train)", "check(train(0))"), "--lastbit-runs", "8")
    warned.assert_outcomes(passed=1, warnings=1)
    warned.stdout.fnmatch_lines(["*--lastbit-runs records nothing, for check() was given a run*"])


def test_a_folder_and_a_choice_of_metrics_will_do(pytester: pytest.Pytester) -> None:
    runs = [{"loss": [1.0, 0.5 + 1e-6 * i], "lr": [0.1, 0.1]} for i in range(8)]
    (pytester.path / "E").mkdir()
    lastbit.envelope_of(runs).save(pytester.path / "E" / "envelope.json")
    test = """
def test_training(lastbit_envelope):
    lastbit_envelope("E").check({"loss": [1.0, 0.5]}, metrics=["loss"], strict=True)
"""
    run(pytester, test).assert_outcomes(passed=1)
    failed = run(pytester, test.replace(', metrics=["loss"]', ""))
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*Undecided: * but the run has no lr.*"])


def test_the_plugin_does_not_import_torch() -> None:
    code = "import sys, lastbit.pytest_plugin; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
