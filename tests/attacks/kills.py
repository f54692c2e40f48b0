"""Ends the program at chosen calls and at random times, or fills its disk; then resumes it without disturbance.

A call is one that changes a file: open for writing, write, sync, rename, link, remove, make a folder, truncate. They are
counted by a library that is preloaded (interpose.c). Resumed runs are killed again with probability 1/3.
"""

import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import work

ACTIONS = ("kill", "torn", "full", "time")
# Signals at random times: none of them may be caught, or each is caught and ends at a checkpoint.
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT)


def add_arguments(attacks) -> None:
    parser = attacks.add_parser("kills", help=__doc__.splitlines()[0], description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="attacked runs; default: %(default)s")
    parser.add_argument("--job", choices=[job.name for job in work.JOBS], help="only this job")
    parser.set_defaults(run=attack)


def attack(arguments) -> int:
    with tempfile.TemporaryDirectory() as name:
        return Attack(arguments, Path(name)).all()


class Attack:
    def __init__(self, arguments, folder: Path) -> None:
        self.program, self.count, self.folder = arguments.program, arguments.count, folder
        self.random = random.Random(arguments.seed)
        self.library = folder / "interpose.so"
        source = Path(__file__).with_name("interpose.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)
        self.jobs = [job for job in work.JOBS if arguments.job in (None, job.name)]
        self.expected, self.calls, self.seconds = {}, {}, {}
        self.done, self.wrong = Counter(), []

    def all(self) -> int:
        for job in self.jobs:
            self.undisturbed(job)
        told = 0
        while sum(self.done.values()) < self.count:
            job = self.jobs[sum(self.done.values()) % len(self.jobs)]
            self.one(job)
            if (done := sum(self.done.values())) >= told + 100:
                told = done
                print(f"{told} attacked runs so far: {len(self.wrong)} wrong", flush=True)
        for line in self.wrong:
            print(line)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items()))
        print(f"{sum(self.done.values())} attacked runs ({kinds}): {len(self.wrong)} wrong")
        return 1 if self.wrong else 0

    def begin(self, job: work.Job, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        work.prepare(folder)
        for command in job.before:
            code, output = work.run(self.program, folder, command)
            assert code == 0, f"{command}: {output}"
        return folder

    def undisturbed(self, job: work.Job) -> None:
        folder, counted = self.begin(job, "whole"), self.folder / "calls"
        started = time.monotonic()
        variables = {"LD_PRELOAD": str(self.library), "INTERPOSE_COUNT": str(counted)}
        code, output = work.run(self.program, folder, job.attacked, variables)
        assert code == 0, f"{job.attacked}: {output}"
        self.seconds[job.name] = time.monotonic() - started
        self.calls[job.name] = int(counted.read_text())
        self.expected[job.name] = work.results(folder)
        print(f"{job.name}: {self.calls[job.name]} calls, {len(self.expected[job.name])} files", flush=True)

    def one(self, job: work.Job) -> None:
        """One run, attacked until chance lets it pass, then resumed to its end."""
        folder, command, story = self.begin(job, "attacked"), job.attacked, []
        while not story or self.random.random() < 1 / 3:
            story.append(self.disturb(job, folder, command, story))
            command = job.resume
        # What the user does: the same command, until it ends.
        code, output = work.run(self.program, folder, job.resume)
        lines = work.differences(self.expected[job.name], work.results(folder))
        if code != 0:
            lines.append(f"resumed, exit code {code}: {output.strip()}")
        self.wrong += [f"{job.name} after {'; '.join(story)}: {line}" for line in lines]

    def disturb(self, job: work.Job, folder: Path, command: str, story: list[str]) -> str:
        action = self.random.choice(ACTIONS)
        self.done[action] += 1
        if action == "time":
            process = work.start(self.program, folder, command)
            end = self.random.choice(SIGNALS)
            delay = self.random.uniform(0, self.seconds[job.name])
            try:
                output, _ = process.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                process.send_signal(end)
                output, _ = process.communicate()
            self.complain(job, output, story)
            return f"{end.name} after {delay:.3f} s"
        place = self.random.randint(1, self.calls[job.name])
        variables = {"LD_PRELOAD": str(self.library), "INTERPOSE_AT": str(place), "INTERPOSE_DO": action}
        code, output = work.run(self.program, folder, command, variables)
        self.complain(job, output, story)
        if action == "full" and code not in (0, 2):
            self.wrong.append(f"{job.name}: full disk at call {place}: exit code {code}: {output.strip()}")
        return f"{action} at call {place}"

    def complain(self, job: work.Job, output: str, story: list[str]) -> None:
        if "panicked" in output or "defect of lastbit" in output:
            self.wrong.append(f"{job.name} after {story}: {output.strip()}")
