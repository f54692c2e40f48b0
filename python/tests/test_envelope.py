"""Envelopes of programs and of configurations."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lastbit

PROGRAM = """
import json, os, sys
seed = int(os.environ["LASTBIT_PERTURB"])
x = 0.3 + seed * 2.0**-54
with open(sys.argv[1], "w") as file:
    for step in range(40):
        x = 3.9 * x * (1 - x)
        file.write(json.dumps({"step": step, "loss": x}) + "\\n")
if len(sys.argv) > 2 and seed == 2:
    sys.exit("ValueError: no data")
"""

TORCH = """
import json, sys
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x, y = torch.randn(64, 8), torch.randn(64, 1)
with open(sys.argv[1], "w") as file:
    for step in range(20):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        file.write(json.dumps({"step": step, "loss": loss.item()}) + "\\n")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(lastbit.__file__).resolve().parents[1]))
    Path("program.py").write_text(PROGRAM)
    Path("train.py").write_text(TORCH)
    return [sys.executable, "program.py", "{run}/metrics.jsonl"]


def test_a_program_that_reads_the_seed(program: list[str]) -> None:
    found = lastbit.envelope(program, n=3, out="E", launcher=False, progress=False)
    assert (found.runs, found.reproducible, found.reached, found.differs) == (5, True, True, None)
    assert found.file == Path("E/envelope.json") and found.file.exists()
    (row,) = found.metrics
    assert (row["metric"], row["steps"], row["last_step"]) == ("loss", 40, 39)
    assert row["sd"] > 0
    assert "5 runs; envelope in" in str(found)
    more = lastbit.envelope(program, n=4, out="E", launcher=False, progress=False)
    assert more.runs == 6
    assert lastbit.verify("E", progress=False).envelopes == 1


def test_a_plain_loop_of_pytorch_is_perturbed_unedited(program: list[str]) -> None:
    pytest.importorskip("torch")
    found = lastbit.envelope([sys.executable, "train.py", "{run}/m.jsonl"], n=2, out="E", progress=False)
    assert found.reproducible and found.reached
    # From the first forward pass on; 1e-7 is the size of one rounding in float32, and Adam's first steps have that of a sign.
    assert found.metrics[0]["differs_from"] == 0
    assert 0 < found.metrics[0]["relative"] < 1e-2


def test_the_command_gives_the_same(program: list[str]) -> None:
    found = lastbit.envelope(program, n=2, out="E", launcher=False, progress=False)
    # What follows -- is for the program.
    called = ["envelope", "-n", "2", "--out", "F", "--no-launcher", "--json", "--", *program]
    done = subprocess.run([sys.executable, "-m", "lastbit", *called], capture_output=True, text=True, check=True)
    assert '"reached":true' in done.stdout
    assert Path("F/envelope.json").read_bytes() == found.file.read_bytes()


def test_a_configuration(program: list[str], config: dict[str, Any]) -> None:
    found = lastbit.envelope(config, n=3, out="E", metrics=["train_loss"], progress=False)
    assert (found.runs, found.reproducible, found.reached) == (3, None, None)
    assert [row["metric"] for row in found.metrics] == ["train_loss"]
    assert found.metrics[0]["sd"] > 0


def test_bad_requests_are_refused(program: list[str]) -> None:
    with pytest.raises(lastbit.InputError, match="program: found 'python train.py', expected a list of words"):
        lastbit.envelope("python train.py")
    with pytest.raises(lastbit.InputError, match="found them with a command"):
        lastbit.envelope(program, set={"optimizer.lr": 1})
    with pytest.raises(lastbit.InputError, match="^runs: found 1"):
        lastbit.envelope(program, n=1, out="E", progress=False)
    with pytest.raises(lastbit.LastbitError, match=r"perturbed-2: .* ended with exit code 1 (?s:.*)ValueError: no data"):
        lastbit.envelope([*program, "fail"], n=2, out="F", launcher=False, progress=False)
