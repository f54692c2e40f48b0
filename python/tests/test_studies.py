"""The training scripts of the studies: what they are used for is true of them."""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples" / "studies"
STEPS, MIDDLE = 8, 4
Rows = list[dict[str, Any]]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GPT, RESNET = load("gpt"), load("resnet")
PLAIN: dict[ModuleType, Rows] = {}


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rows]]:
    """A run of a script in this process: the rows of its metrics."""
    threads, random = torch.get_num_threads(), torch.get_rng_state()

    def run(module: ModuleType, out: str, *arguments: object) -> Rows:
        command = [module.__name__, "--out", tmp_path / out, "--steps", STEPS, *arguments]
        monkeypatch.setattr(sys, "argv", [str(argument) for argument in command])
        module.main()
        return [json.loads(line) for line in (tmp_path / out / "metrics.jsonl").read_text().splitlines()]

    yield run
    torch.set_num_threads(threads)
    torch.set_rng_state(random)
    torch.backends.mkldnn.set_flags(_enabled=True)
    torch.set_default_dtype(torch.float32)


def resumed(train: Callable[..., Rows], tmp_path: Path, module: ModuleType, *arguments: str) -> Rows:
    train(module, "resumed", "--stop-at", MIDDLE)
    return train(module, "resumed", "--resume", tmp_path / "resumed" / "checkpoint.pt", *arguments)


@pytest.mark.parametrize("module", [GPT, RESNET])
def test_a_run_has_the_same_bits_each_time_also_resumed(
    module: ModuleType, train: Callable[..., Rows], plain: Callable[[ModuleType], Rows], tmp_path: Path
) -> None:
    rows = plain(module)
    assert [row["step"] for row in rows] == list(range(STEPS + 1))
    assert all({"eval_loss", "eval_accuracy"} <= rows[step].keys() for step in (0, STEPS))
    assert train(module, "again") == rows
    assert resumed(train, tmp_path, module) == rows


@pytest.fixture
def plain(train: Callable[..., Rows]) -> Callable[[ModuleType], Rows]:
    """The metrics of a run without a bug or change; made once."""

    def run(module: ModuleType) -> Rows:
        if module not in PLAIN:
            PLAIN[module] = train(module, "plain")
        return PLAIN[module]

    return run


def first_difference(a: Rows, b: Rows) -> int:
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)


# The first step at which a bug shows: where it acts on a logged number, else one step later.
FIRST = {
    "lr-1-percent": 1,
    "decay-on-biases": 1,
    "dropped-micro-batch": 0,
    "loss-averaged-twice": 0,
    "dropout-in-eval": 0,
    "batch-norm-eps": 0,
    "train-mode-in-eval": 0,
    "optimizer-not-restored": MIDDLE + 1,
    "data-order-after-resume": MIDDLE,
}


@pytest.mark.parametrize(("module", "bug"), [(module, bug) for module in (GPT, RESNET) for bug in module.BUGS])
def test_a_bug_shows_where_it_acts(
    module: ModuleType, bug: str, train: Callable[..., Rows], plain: Callable[[ModuleType], Rows], tmp_path: Path
) -> None:
    if FIRST[bug] >= MIDDLE:
        faulty = resumed(train, tmp_path, module, "--bug", bug)
    else:
        faulty = train(module, "faulty", "--bug", bug)
    # Norms and biases begin at 1 and 0, and ReLU networks with batch norm have a loss that takes two steps to see a decay.
    assert FIRST[bug] <= first_difference(plain(module), faulty) <= FIRST[bug] + (bug == "decay-on-biases")


@pytest.mark.parametrize(
    ("module", "change"),
    [(module, change) for module in (GPT, RESNET) for change in module.CHANGES if not change.startswith("compiled")],
)
def test_a_change_is_one_of_rounding(
    module: ModuleType, change: str, train: Callable[..., Rows], plain: Callable[[ModuleType], Rows]
) -> None:
    if change == "one-batch":
        rows, other = (train(module, "x", "--dropout", 0, *more) for more in ([], ["--change", change]))
    else:
        rows, other = plain(module), train(module, "other", "--change", change)
    # Activations of the ResNet differ by 70 * 2^-24 between implementations (root mean square; batch norm adds 32,768
    # terms). The mean over 32 examples makes that 12 * 2^-24; 16 * 2^-24 are allowed.
    assert other[0]["loss"] == pytest.approx(rows[0]["loss"], rel=2.0**-20)


def test_in_float64_a_change_is_one_of_rounding_there(train: Callable[..., Rows]) -> None:
    rows, other = (train(RESNET, "x", "--double", *more) for more in ([], ["--change", "channels-last"]))
    # As above, with 2^-53 instead of 2^-24.
    assert other[0]["loss"] == pytest.approx(rows[0]["loss"], rel=2.0**-49)


def test_images_are_those_of_the_data_set() -> None:
    images, labels, eval_images, eval_labels = RESNET.load_images()
    # Frog, truck, truck, deer, automobile; the test set with cat, ship, ship, airplane, frog.
    assert labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert eval_labels[:5].tolist() == [3, 8, 8, 0, 6]
    # Normalized on the training images, in float32.
    assert images.mean((0, 2, 3)).abs().max() < 1e-4
    assert (images.std((0, 2, 3)) - 1).abs().max() < 1e-4
    assert eval_images.shape == (300, 3, 32, 32)
