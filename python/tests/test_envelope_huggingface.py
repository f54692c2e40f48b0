"""An envelope of an unedited training with the Trainer of transformers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import lastbit  # noqa: E402

# Nothing of lastbit in it, and nothing is downloaded.
SCRIPT = """
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(1)
config = GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=16, vocab_size=64, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)

def text(count, seed):
    tokens = torch.randint(0, 64, (count, 16), generator=torch.Generator().manual_seed(seed))
    tokens[:, 1::2] = tokens[:, ::2]
    return [{"input_ids": row, "labels": row} for row in tokens]

arguments = TrainingArguments(
    output_dir=sys.argv[1], max_steps=30, per_device_train_batch_size=8, learning_rate=1e-2, logging_steps=1,
    eval_strategy="steps", eval_steps=10, report_to=[], use_cpu=True, save_strategy="steps", save_steps=30, disable_tqdm=True,
)
Trainer(model, arguments, train_dataset=text(64, 2), eval_dataset=text(16, 3)).train()
"""


def test_the_trainer_of_transformers_gets_an_envelope_unedited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(lastbit.__file__).resolve().parents[1]))
    command = [sys.executable, "train.py", "{run}/out"]
    found = lastbit.envelope(command, n=4, out="E", metrics=["loss", "eval_loss"], progress=False)
    assert found.runs == 6 and found.reproducible and found.reached and found.differs is None
    rows = {row["metric"]: row for row in found.metrics}
    assert set(rows) == {"loss", "eval_loss"}
    assert (rows["loss"]["steps"], rows["eval_loss"]["steps"]) == (30, 3)
    # 4 decimals are logged by no version: the last bits of a float32 are seen at once, and grow.
    loss = rows["loss"]
    assert loss["differs_from"] <= 2
    assert 0 < loss["relative"] < 1e-2
    envelope = json.loads(Path("E/envelope.json").read_text())
    values = envelope["metrics"]["loss"]["values"]
    assert len({tuple(run) for run in values}) == 4
    # The training itself works: the loss of 64 equally probable tokens is ln 64 = 4.16, and half of them are known.
    assert all(run[-1] < 3.6 < run[0] for run in values)
    # Another run of the same program without a perturbation is one of the plain runs, bit for bit.
    done = subprocess.run([sys.executable, "train.py", "again"], env=os.environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    history = json.loads(Path("again/checkpoint-30/trainer_state.json").read_text())["log_history"]
    plain = json.loads(Path("E/runs/plain-0/out/checkpoint-30/trainer_state.json").read_text())["log_history"]
    losses = [[row["loss"] for row in rows if "loss" in row] for rows in (history, plain)]
    assert losses[0] == losses[1]
