"""Small jobs for the program, and what their folders must hold in the end."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

TRAINING = """
data = { name = "mnist01", limit = 24, test-limit = 8 }
network = { kind = "mlp", hidden = [3] }
optimizer = { name = "sgd", lr = 0.1 }
training = { steps = 12, batch = 12, checkpoint-every = 3 }
replicas = { k = [1, 3] }
"""
MEASURED = """
sharpness = { every = 4, top = 2 }
attribution = { every = 5 }
"""
# A program that reads its perturbation; nothing of it may be killed but by lastbit.
PROGRAM = """
printf '{"step": 1, "loss": 0.5}\\n{"step": 2, "loss": 0.%s}\\n' $((LASTBIT_PERTURB + 5)) >"$1"
"""
CURVE = "x,y\n" + "".join(f"{x},{x * x}\n" for x in range(24))


@dataclass(frozen=True)
class Job:
    """Commands to give in an empty folder; the last one is attacked, and resumed by `resume`."""

    name: str
    before: tuple[str, ...]
    attacked: str
    resume: str


JOBS = (
    Job("train", (), "train measured.toml --out run", "train measured.toml --out run --resume"),
    Job("run", (), *["run fig-heat tab-power-of-two --scale smoke --out out"] * 2),
    Job("edge", (), *["edge config.toml --steps 64 --property stable --tolerance 0.2 --out out"] * 2),
    Job("noise", (), *["noise config.toml --n 2 --out out"] * 2),
    Job("envelope", (), *["envelope -n 3 --out out -- env -u LD_PRELOAD sh program.sh {run}/metrics.jsonl"] * 2),
    Job(
        "import",
        ("data import old.csv --target y --name curve",),
        *["data import curve.csv --target y --name curve --replace"] * 2,
    ),
)


def prepare(folder: Path) -> None:
    """The files that jobs read."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(TRAINING)
    (folder / "measured.toml").write_text(TRAINING + MEASURED)
    (folder / "program.sh").write_text(PROGRAM)
    (folder / "curve.csv").write_text(CURVE)
    (folder / "old.csv").write_text(CURVE.replace("23,529", "23,0"))


def start(program: Path, folder: Path, command: str, variables: dict[str, str] | None = None, output=None):
    """Starts the program in `folder`; its data sets lie there, too. Its output goes to a pipe, or to this file."""
    environment = os.environ | {"LASTBIT_DATA": str(folder / "data")} | (variables or {})
    # Before the command that `envelope` runs.
    own, *other = command.split(" -- ")
    words = [str(program), *own.split(), *(["--threads", "2"] if "data " not in own else [])]
    words += [word for part in other for word in ["--", *part.split()]]
    place = output.open("w") if output else subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=place, stderr=subprocess.STDOUT, text=True)


def run(program: Path, folder: Path, command: str, variables: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and output."""
    process = start(program, folder, command, variables)
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def results(folder: Path) -> dict[str, bytes]:
    """All files that depend on the settings alone. Times do not, and locks are no results."""

    def is_result(path: Path) -> bool:
        return path.is_file() and path.name != "timing.json" and "lock" not in path.name.split(".")

    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if is_result(path)}


def differences(expected: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """A line for each file that is missing, is there without need, or differs."""
    lines = [f"{name}: missing" for name in expected if name not in found]
    lines += [f"{name}: not expected" for name in found if name not in expected]
    return lines + [f"{name}: differs" for name in expected if name in found and expected[name] != found[name]]
