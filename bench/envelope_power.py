#!/usr/bin/env python3
"""Bug or rounding? Which bugs do `lastbit envelope` and `lastbit check` find in two trainings, and which harmless changes pass?

    python bench/envelope_power.py [--out target/studies] [--jobs 1] [gpt resnet]

The trainings are python/examples/studies/gpt.py and resnet.py, on a CPU. Of each, envelopes are made for several setups:

    start         the whole training, 32 perturbed runs
    first-20      the first 20 steps of it, 16 runs
    checkpoint    from a checkpoint in its middle to its end, 16 runs
    no-dropout    the GPT without dropout, 16 runs: for the changes that draw other random numbers
    double        the first 20 steps of the ResNet in float64, 16 runs: for what rounding in float32 hides

Each run with a bug or a harmless change is checked at a level of 1 % against 4, 8 and 16 runs. For false alarms, each run of an
envelope and the plain one are checked against all others; of `start`, also 200 random choices of 4 and of 8 runs with one more.

Printed are tables; OUT/STUDY/result.json has all numbers, OUT/STUDY/SETUP-N.json the envelopes, OUT/STUDY/figures the
figures of `lastbit check`. All runs are kept: the same command resumes after an interruption. 25 minutes with --jobs 2 on two cores.
"""

import argparse
import importlib
import itertools
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import lastbit

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path("python/examples/studies")
sys.path.insert(0, str(ROOT / SCRIPTS))

LEVEL, SIZES, CHOICES, CHOSEN_SIZES = 0.01, (4, 8, 16), 200, (4, 8)
MIDDLE, FIRST = 150, 20
ON_RESUME = ("optimizer-not-restored", "data-order-after-resume")
OTHER_RANDOM = ("one-batch", "compiled-own-random")
#: The bug and the harmless change that are drawn.
DRAWN = {"gpt": ("bug-lr-1-percent", "change-compiled"), "resnet": ("bug-lr-1-percent", "change-channels-last")}
SHOWN_STEPS = (0, 1, 2, 3, 5, 10, 15, 20, 50, 100, 150, 151, 153, 155, 160, 170, 200, 250, 299)

Run = dict[str, tuple[list[int], list[float]]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A run with a bug or a change."""

    name: str
    arguments: tuple[str, ...]
    resumed: bool = False


@dataclass(frozen=True)
class Setup:
    """An envelope, and the runs that are checked against it."""

    name: str
    arguments: tuple[str, ...]
    runs: int
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Study:
    name: str
    folder: Path
    jobs: int

    @property
    def middle(self) -> Path:
        """The plain run up to the checkpoint."""
        return self.folder / "runs" / "middle"

    def run(self, case: Case) -> Path:
        return self.folder / "runs" / case.name

    def envelope_folder(self, setup: Setup) -> Path:
        return self.folder / "envelopes" / setup.name

    def envelope(self, setup: Setup, runs: int) -> Path:
        return self.folder / f"{setup.name}-{runs}.json"

    def command(self, *arguments: str) -> list[str]:
        return ["python", str(SCRIPTS / f"{self.name}.py"), *arguments]

    def setups(self) -> list[Setup]:
        script = importlib.import_module(self.name)
        bugs = [Case(f"bug-{bug}", ("--bug", bug), bug in ON_RESUME) for bug in script.BUGS]
        changes = [Case(f"change-{change}", ("--change", change)) for change in script.CHANGES]
        resumed = [Case(f"resumed-{case.name}", case.arguments, True) for case in changes]
        resumed = [case for case in bugs if case.resumed] + [Case("resumed", (), True)] + resumed
        checkpoint = ("--resume", str(self.middle / "checkpoint.pt"))
        first = ("--stop-at", str(FIRST))
        from_start = [case for case in (*bugs, *changes) if not case.resumed]
        setups = [
            Setup("start", (), 32, (*bugs, *changes)),
            Setup("first-20", first, 16, tuple(from_start)),
            Setup("checkpoint", checkpoint, 16, tuple(resumed)),
        ]
        if self.name == "gpt":
            without = ("--dropout", "0")
            cases = [Case(f"no-dropout-{change}", (*without, "--change", change)) for change in OTHER_RANDOM]
            setups.append(Setup("no-dropout", without, 16, tuple(cases)))
        else:
            arguments = (*first, "--double")
            cases = [Case(f"double-{case.name}", (*arguments, *case.arguments)) for case in from_start]
            setups.append(Setup("double", arguments, 16, tuple(cases)))
        return setups


def environment(arguments: Sequence[str] = ()) -> dict[str, str]:
    """The Python of this process comes first; one thread for each run, unless it asks for two."""
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    threads = {} if "threads-2" in arguments else {"OMP_NUM_THREADS": "1"}
    return os.environ | own | threads


def called(command: Sequence[str], *allowed: int, **options: Any) -> str:
    """Standard output of a command that ends with exit code 0 or one of those allowed."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, env=environment(command), stdout=subprocess.PIPE, text=True, **options
    )
    if done.returncode not in (0, *allowed):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr or ''}")
    return done.stdout


def make_run(study: Study, folder: Path, arguments: Sequence[str], begun: Path | None = None) -> None:
    """A run of the script, unless it is there; `begun` holds its first half."""
    if folder.exists():
        return
    started = time.monotonic()
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if begun:
        shutil.copytree(begun, unfinished)
        arguments = ["--resume", str(unfinished / "checkpoint.pt"), *arguments]
    called(study.command("--out", str(unfinished), *arguments), stderr=subprocess.PIPE)
    unfinished.rename(folder)
    print(f"{study.name}: {folder.name} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)


def make_runs(study: Study, setups: Iterable[Setup]) -> None:
    make_run(study, study.middle, ["--stop-at", str(MIDDLE)])
    cases = {case.name: case for setup in setups for case in setup.cases}.values()
    with ThreadPoolExecutor(study.jobs) as pool:
        made = [pool.submit(make_run, study, study.run(case), case.arguments, study.middle if case.resumed else None) for case in cases]
        for run in made:
            run.result()


def make_envelope(study: Study, setup: Setup) -> None:
    """First the 16 runs whose envelope is kept, then all; of 4 and 8 the envelope is that of the first runs."""
    folder = study.envelope_folder(setup)
    for runs in sorted({SIZES[-1], setup.runs}):
        file = study.envelope(setup, runs)
        if not file.exists():
            print(f"{study.name}: envelope {setup.name}, {runs} runs", file=sys.stderr, flush=True)
            options = ["-n", str(runs), "--jobs", str(study.jobs), "--out", str(folder)]
            called(["lastbit", "envelope", *options, "--", *study.command("--out", "{run}", *setup.arguments)])
            shutil.copy(folder / "envelope.json", file)
    for runs in SIZES[:-1]:
        paths = {f"perturbed-{seed}": folder / "runs" / f"perturbed-{seed}" for seed in range(1, runs + 1)}
        lastbit.envelope_of(paths, perturbation="ulps").save(study.envelope(setup, runs))


def checked(run: Path, envelope: Path) -> Row:
    """What `lastbit check` says."""
    command = ["lastbit", "check", str(run), "--envelope", str(envelope), "--level", str(LEVEL), "--json"]
    (answer,) = json.loads(called(command, 1))["results"]
    result = answer["result"]
    kept = {key: result[key] for key in ("verdict", "deviation", "limit", "largest_of_runs", "p", "notes")}
    leaves = result["leaves"] or {}
    return kept | {"step": leaves.get("step"), "metric": leaves.get("metric")}


def differs_from(run: Run, plain: Run) -> int | None:
    """The first step at which a run is not bit-identical to the one without a perturbation, among those that both have."""
    steps: list[int] = []
    for metric, (own_steps, own_values) in run.items():
        values = dict(zip(*plain[metric], strict=True))
        differ = (step for step, value in zip(own_steps, own_values, strict=True) if values.get(step, value) != value)
        steps += itertools.islice(differ, 1)
    return min(steps, default=None)


def read(folder: Path) -> Run:
    metrics = lastbit.logged(folder).metrics
    return {name: (metric.steps.tolist(), metric.values.tolist()) for name, metric in metrics.items()}


def check_cases(study: Study, setup: Setup) -> Iterator[Row]:
    plain = read(study.envelope_folder(setup) / "runs" / "plain-0")
    for case in setup.cases:
        run = study.run(case)
        checks = {str(n): checked(run, study.envelope(setup, n)) for n in SIZES}
        found = read(run)
        yield {"case": case.name, "differs_from": differs_from(found, plain), "checks": checks, "effect": effect(found, plain)}


def effect(run: Run, plain: Run) -> dict[str, float]:
    """The loss of a run minus that of the plain one, relative to it, by step."""
    own, other = (dict(zip(*one["loss"], strict=True)) for one in (run, plain))
    return {str(step): own[step] / other[step] - 1 for step in SHOWN_STEPS if step in own and step in other}


def verdicts(runs: dict[str, Run], choices: Iterable[Sequence[str]]) -> Row:
    """The last run of each choice beside all others of it."""
    counts, outside, largest = Counter[str](), [], 0.0
    for *others, new in choices:
        result = lastbit.envelope_of({name: runs[name] for name in others}).check(runs[new], level=LEVEL)
        counts[result.verdict] += 1
        over_limit = result.deviation / result.limit
        largest = max(largest, over_limit)
        if result.leaves and result.verdict == "outside":
            outside.append({"run": new, "over_limit": over_limit} | {key: result.leaves[key] for key in ("metric", "step")})
    return {"checked": counts.total(), **counts, "largest_over_limit": largest, "outside_runs": outside}


def false_alarms(study: Study, setup: Setup) -> Row:
    """Runs without a bug, checked against others of them."""
    folder = study.envelope_folder(setup) / "runs"
    names = ["plain-0", *(f"perturbed-{seed}" for seed in range(1, setup.runs + 1))]
    runs = {name: read(folder / name) for name in names}
    found = {"left_out": verdicts(runs, ([other for other in names if other != name] + [name] for name in names))}
    if setup.name == "start":
        draw = random.Random(0)
        for n in CHOSEN_SIZES:
            found[f"choices_of_{n}"] = verdicts(runs, [draw.sample(names, n + 1) for _ in range(CHOICES)])
    return found


def spread(study: Study, setup: Setup) -> dict[str, float]:
    """Standard deviation of the loss over runs, relative to its mean, by step."""
    runs = [read(study.envelope_folder(setup) / "runs" / f"perturbed-{seed}")["loss"] for seed in range(1, setup.runs + 1)]
    by_step = torch.tensor([values for _, values in runs], dtype=torch.float64)
    relative = by_step.std(0) / by_step.mean(0)
    return {str(step): value for step, value in zip(runs[0][0], relative.tolist(), strict=True) if step in SHOWN_STEPS}


def draw(study: Study, setup: Setup) -> None:
    """Figures of a bug and a harmless change, as `lastbit check --out` draws them."""
    for name in DRAWN[study.name]:
        folder, place = study.folder / "checks" / name, study.folder / "figures"
        shutil.rmtree(folder, ignore_errors=True)
        run, envelope = study.folder / "runs" / name, study.envelope(setup, SIZES[-1])
        called(["lastbit", "check", str(run), "--envelope", str(envelope), "--level", str(LEVEL), "--out", str(folder)], 1)
        place.mkdir(exist_ok=True)
        for file in folder.glob("check/*/figures/*.svg"):
            shutil.copy(file, place / f"{name}-{file.name.removeprefix('run-1-')}")


def processor() -> str:
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def cell(check: Row) -> str:
    """Verdict, with the step and metric at which an outside run leaves."""
    place = "" if check["verdict"] == "inside" else f" {check['step']}, {check['metric']}"
    return f"{check['verdict']}{place} ({check['deviation']:.3g} / {check['limit']:.3g})"


def report(result: Row) -> str:
    lines = [f"# {result['study']}: torch {result['torch']}, {result['processor']}"]
    for name, setup in result["setups"].items():
        sizes = [f"n = {n}" for n in SIZES]
        lines += ["", f"## {name}: verdict, step, metric (deviation / limit)", ""]
        lines += [f"| {' | '.join(['run', 'differs from', *sizes])} |", "|" + "---|" * (2 + len(sizes))]
        for row in setup["cases"]:
            cells = [row["case"], str(row["differs_from"]), *map(cell, row["checks"].values())]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *(f"{key}: {found}" for key, found in setup["false_alarms"].items())]
        lines += ["", "Loss: standard deviation over runs, and difference of each run from the plain one, relative, by step", ""]
        steps = list(setup["spread"])
        lines += [f"| {' | '.join(['run', *steps])} |", "|" + "---|" * (1 + len(steps))]
        for label, values in [("SD", setup["spread"]), *((row["case"], row["effect"]) for row in setup["cases"])]:
            lines.append(f"| {' | '.join([label, *(f'{values[step]:.1e}' for step in steps)])} |")
    return "\n".join(lines)


def measure(study: Study) -> Row:
    setups = study.setups()
    study.middle.parent.mkdir(parents=True, exist_ok=True)
    make_runs(study, setups)
    for setup in setups:
        make_envelope(study, setup)
    found: dict[str, Row] = {}
    for setup in setups:
        print(f"{study.name}: checks of {setup.name}", file=sys.stderr, flush=True)
        found[setup.name] = {
            "arguments": setup.arguments,
            "runs": setup.runs,
            "cases": list(check_cases(study, setup)),
            "false_alarms": false_alarms(study, setup),
            "spread": spread(study, setup),
        }
    draw(study, setups[0])
    versions = {"lastbit": lastbit.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"study": study.name, **versions, "processor": processor(), "level": LEVEL, "setups": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", default=["gpt", "resnet"], metavar="STUDY", help="%(default)s")
    parser.add_argument("--out", type=Path, default=Path("target/studies"), help="below the repository, or absolute")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    for name in arguments.studies:
        study = Study(name, arguments.out / name, arguments.jobs)
        result = measure(study)
        (study.folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        print(report(result), flush=True)


if __name__ == "__main__":
    main()
