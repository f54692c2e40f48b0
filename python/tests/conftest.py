"""What tests have in common: a small training, and the command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastbit


@pytest.fixture
def config() -> dict[str, Any]:
    """A training of a fraction of a second, whose replicas differ in rounding."""
    return {
        "data": {"name": "mnist01", "limit": 160, "test-limit": 40},
        "network": {"kind": "mlp", "hidden": [16], "activation": "tanh"},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "training": {"epochs": 3, "batch": 16, "metrics-every": 5},
        "replicas": {"k": [1, 3, 4]},
    }


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The command with ``--json``, run in a folder of its own; its answer."""

    def run(*arguments: str) -> dict[str, Any]:
        called = [sys.executable, "-m", "lastbit", *arguments, "--json"]
        # The package under test, wherever it was found.
        environment = os.environ | {"PYTHONPATH": str(Path(lastbit.__file__).resolve().parents[1])}
        done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode in (0, 1), done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run
