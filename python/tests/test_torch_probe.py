"""A probe changes no bit of a training, measures what the functions measure, and survives kills."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

import lastbit  # noqa: E402
import lastbit.torch  # noqa: E402
from lastbit.torch import Probe  # noqa: E402
from lastbit.torch._schedule import Clock, ShareOfTime  # noqa: E402

torch.set_num_threads(1)

CRITERION = nn.CrossEntropyLoss()


def images(n: int = 24) -> tuple[Tensor, Tensor]:
    return models.data(n, 1, 6, 6, dtype=torch.float32), models.labels(n, 3)


def network() -> nn.Module:
    """Convolution, batch norm and dropout: it has buffers, and draws random numbers at every step."""
    torch.manual_seed(0)
    return models.cnn()


def train(
    steps: int,
    probed: Callable[[nn.Module, torch.optim.Optimizer], Probe] | None,
    optimizer_of: Callable[..., Any] = lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    model: nn.Module | None = None,
    at_step: Callable[[int, nn.Module, Any], object] = lambda step, model, optimizer: None,
) -> tuple[nn.Module, Any]:
    """Train on mini-batches of a shuffled loader, probed or not."""
    model = model or network()
    optimizer = optimizer_of(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    loader = DataLoader(TensorDataset(*images()), batch_size=8, shuffle=True)
    probe = probed(model, optimizer) if probed is not None else None
    step = 0
    while step < steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss = CRITERION(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            at_step(step, model, optimizer)
            if probe is not None:
                probe.step(step, loss=loss)
            if step == steps:
                break
    if probe is not None:
        probe.close()
    return model, optimizer


@pytest.mark.parametrize("optimizer_of", [
    lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-3),
    lambda params: torch.optim.AdamW(params, lr=0.01),
    lambda params: torch.optim.RMSprop(params, lr=0.01),
], ids=["momentum", "adamw", "rmsprop"])  # fmt: skip
def test_the_training_is_the_same_bit_by_bit(tmp_path: Path, optimizer_of: Callable[..., Any]) -> None:
    alone, its_optimizer = train(12, None, optimizer_of)
    expected = models.everything(alone, its_optimizer)

    def probed(model: nn.Module, optimizer: torch.optim.Optimizer) -> Probe:
        return Probe(model, CRITERION, images(6), optimizer, out=tmp_path / "run", preset="full", every=3)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer = train(12, probed, optimizer_of)
    assert models.everything(model, optimizer) == expected
    metrics = lastbit.read(tmp_path / "run").metrics
    assert metrics["step"].tolist() == [3, 6, 9, 12]
    for column in ("loss", "sharpness", "critical_lr", "growth_per_step", "sharpness_of.0"):
        assert np.isfinite(metrics[column]).all(), column
    # RMSprop has no known stability limit.
    assert ("edge_ratio" in metrics) == (optimizer_of(model.parameters()).__class__ is not torch.optim.RMSprop)


def test_an_adaptive_schedule_changes_no_bit_either(tmp_path: Path) -> None:
    expected = models.everything(train(12, None)[0])
    found = models.everything(train(12, lambda *m: Probe(m[0], CRITERION, images(6), m[1], out=tmp_path / "run", share=1.0))[0])
    assert found == expected
    assert len(lastbit.read(tmp_path / "run").metrics["step"]) >= 1


def test_rows_are_what_the_functions_measure(tmp_path: Path) -> None:
    batch = images(6)
    expected: list[dict[str, Any]] = []
    fingerprints = {}

    def direct(step: int, model: nn.Module, optimizer: Any) -> None:
        if step % 4:
            return
        sharp = lastbit.torch.sharpness(model, CRITERION, batch, optimizer=optimizer, layers=True)
        critical = lastbit.torch.critical_lr(model, CRITERION, batch, optimizer)
        grown = lastbit.torch.growth(model, CRITERION, batch, optimizer, steps=64)
        prints = lastbit.torch.fingerprint(model)
        fingerprints[step] = prints.tensors
        expected.append(
            {
                "lr": optimizer.param_groups[0]["lr"],
                "probe_loss": sharp.loss,
                "gradient_norm": sharp.gradient_norm,
                "sharpness": sharp.sharpness,
                "residual": sharp.residuals[0],
                "threshold": sharp.threshold,
                "edge_ratio": sharp.edge_ratio,
                "edge_residual": sharp.edge_residual,
                "hvps": sharp.hvps,
                "critical_lr": critical.critical_lr,
                "critical_lr_lower": critical.lower,
                "critical_lr_upper": critical.upper,
                "growth_per_step": grown.growth_per_step,
                "growth_standard_error": grown.standard_error,
                "verdict": grown.verdict,
                "hash": prints.total,
                **{f"sharpness_of.{layer.name}": layer.sharpness for layer in sharp.layers},
                **{f"edge_ratio_of.{layer.name}": layer.edge_ratio for layer in sharp.layers},
            }
        )

    train(8, lambda *m: Probe(m[0], CRITERION, batch, m[1], out=tmp_path / "run", preset="full", every=4), at_step=direct)
    run = lastbit.read(tmp_path / "run")
    assert run.metrics["step"].tolist() == [4, 8]
    for i, row in enumerate(expected):
        assert {name: run.metrics[name][i] for name in row} == row
    assert run.fingerprints() == fingerprints
    # The edge ratio at the threshold is 1; two roundings of the division and the product.
    ratio = run.metrics["edge_ratio"] * run.metrics["threshold"] / run.metrics["sharpness"]
    assert np.abs(ratio - 1).max() < 4e-16


def test_cheap_searches_start_from_the_last_one(tmp_path: Path) -> None:
    batch = images(6)
    found: list[Any] = [None]

    def direct(step: int, model: nn.Module, optimizer: Any) -> None:
        if step % 2 == 0:
            start = found[-1]
            new = lastbit.torch.sharpness(model, CRITERION, batch, optimizer=optimizer, start=start, check=start is None)
            found.append(new)

    train(6, lambda *m: Probe(m[0], CRITERION, batch, m[1], out=tmp_path / "run", every=2), at_step=direct)
    metrics = lastbit.read(tmp_path / "run").metrics
    assert metrics["edge_ratio"].tolist() == [one.edge_ratio for one in found[1:]]
    assert metrics["hvps"].tolist() == [one.hvps for one in found[1:]]
    assert "critical_lr" not in metrics and "gradient_norm" in metrics


def test_a_measurement_is_due_when_it_leaves_the_total_below_the_share() -> None:
    clock = Clock(measuring=1.0)
    schedule = ShareOfTime(0.05)
    for elapsed, cost, is_due in [(0.0, None, True), (39.0, 1.0, False), (41.0, 1.0, True), (41.0, 1.1, False)]:
        clock.elapsed = lambda elapsed=elapsed: elapsed  # type: ignore[method-assign,misc]
        assert schedule.is_due(7, clock, cost) == is_due, elapsed


def test_loggers_get_the_numbers_and_cannot_end_the_training(tmp_path: Path) -> None:
    class Writer:
        def __init__(self) -> None:
            self.seen: dict[str, list[tuple[float, int]]] = {}

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.seen.setdefault(name, []).append((value, step))

    class Wandb:
        def __init__(self) -> None:
            self.seen: list[tuple[dict[str, float], int]] = []

        def log(self, values: dict[str, float], step: int) -> None:
            self.seen.append((values, step))

    called: list[tuple[dict[str, float], int]] = []
    for name, logger in {"writer": Writer(), "wandb": Wandb(), "function": lambda v, step: called.append((v, step))}.items():
        train(4, lambda *m: Probe(m[0], CRITERION, images(6), m[1], out=tmp_path / name, every=2, logger=logger))
        ratios = lastbit.read(tmp_path / name).metrics["edge_ratio"].tolist()
        if isinstance(logger, Writer):
            assert logger.seen["lastbit/edge_ratio"] == list(zip(ratios, [2, 4], strict=True))
        else:
            seen = logger.seen if isinstance(logger, Wandb) else called
            assert [(values["lastbit/edge_ratio"], step) for values, step in seen] == list(zip(ratios, [2, 4], strict=True))

    def broken(values: dict[str, float], step: int) -> None:
        raise OSError("no network")

    with pytest.warns(RuntimeWarning, match="logger: OSError: no network"):
        train(4, lambda *m: Probe(m[0], CRITERION, images(6), m[1], out=tmp_path / "broken", every=2, logger=broken))
    assert lastbit.read(tmp_path / "broken").summary is not None
    with pytest.raises(TypeError, match="logger: found int"):
        Probe(out=tmp_path / "none", logger=3)


def test_a_loss_that_fails_is_noted_and_given_up_when_it_fails_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def loss_fn(model: nn.Module, batch: Any) -> Tensor:
        calls.append(1)
        raise RuntimeError("no such column")

    expected = models.everything(train(10, None)[0])
    with pytest.warns(RuntimeWarning, match="sharpness: RuntimeError: no such column") as caught:
        model, _ = train(10, lambda *m: Probe(m[0], loss_fn, images(6), m[1], out=tmp_path / "run", every=2))
    assert Path(caught[0].filename) == Path(__file__), "the warning names the line of the user"
    assert models.everything(model) == expected
    run = lastbit.read(tmp_path / "run")
    assert len(calls) == 2 and len(run.metrics["step"]) == 5
    assert run.summary is not None
    notes = [note["note"] for note in run.summary["notes"]]
    assert len(notes) == 2 and "not measured any more" in notes[1], notes
    # What does not need the loss is still measured.
    assert all(run.metrics["hash"]) and np.isfinite(run.metrics["loss"]).all()


def test_without_a_known_limit_or_an_optimizer_the_sharpness_is_still_measured(tmp_path: Path) -> None:
    train(4, lambda *m: Probe(m[0], CRITERION, images(6), out=tmp_path / "none", every=2))
    metrics = lastbit.read(tmp_path / "none").metrics
    assert np.isfinite(metrics["sharpness"]).all() and "edge_ratio" not in metrics and "lr" not in metrics
    # Adam has a limit as soon as it has made a step.
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with Probe(model, CRITERION, images(6), optimizer, out=tmp_path / "adam", every=1) as probe:
        probe.step(0)
        for step in (1, 2):
            CRITERION(model(images(6)[0]), images(6)[1]).backward()
            optimizer.step()
            probe.step(step)
    ratios = lastbit.read(tmp_path / "adam").metrics["edge_ratio"]
    assert np.isfinite(ratios).tolist() == [False, True, True]
    assert "before its first step" in json.dumps((tmp_path / "adam" / "summary.json").read_text())


def test_the_batches_of_a_loader_are_taken_without_touching_it(tmp_path: Path) -> None:
    class Augmented(Dataset):  # type: ignore[type-arg]
        """Draws from all generators that augmentations use."""

        def __len__(self) -> int:
            return 24

        def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
            import random

            x, y = images()
            return x[i] + random.random() + np.random.rand() + torch.rand(1), y[i]

    model = network()
    loader = DataLoader(Augmented(), batch_size=5, shuffle=True)
    before = models.everything(model)
    probe = Probe(model, CRITERION, loader, out=tmp_path / "cheap")
    Probe(model, CRITERION, loader, out=tmp_path / "full", preset="full")
    assert models.everything(model) == before
    probe.step(1)
    assert probe.last is not None and np.isfinite(probe.last["sharpness"])
    assert lastbit.read(tmp_path / "cheap").settings["batches"] == {"count": 1, "examples": 5}
    assert lastbit.read(tmp_path / "full").settings["batches"] == {"count": 4, "examples": 20}

    class Stream(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise AssertionError("it was read")

    with pytest.raises(ValueError, match=r"found a loader of a Stream, .* pass batches=\[batch\]"):
        Probe(model, CRITERION, DataLoader(Stream(), batch_size=5), out=tmp_path / "stream")


def test_wrapped_models_and_optimizers_are_measured_as_what_they_wrap(tmp_path: Path) -> None:
    class Wrapped(torch.optim.Optimizer):
        """As Accelerate has it."""

        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

        @property
        def param_groups(self) -> Any:
            return self.optimizer.param_groups

    model = network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(model, backend="eager")
    probe = Probe(compiled, CRITERION, images(6), Wrapped(inner), out=tmp_path / "run", every=1)
    probe.step(1)
    direct = lastbit.torch.sharpness(model, CRITERION, images(6), optimizer=inner)
    assert probe.last is not None and probe.last["edge_ratio"] == direct.edge_ratio
    assert lastbit.read(tmp_path / "run").settings["optimizer"]["name"] == "SGD"


def test_only_the_process_of_rank_0_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    train(4, lambda *m: Probe(m[0], CRITERION, images(6), m[1], out=tmp_path / "run", every=1))
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over_and_bad_arguments_are_named(tmp_path: Path) -> None:
    model = network()
    Probe(model, CRITERION, images(6), out=tmp_path / "run").close()
    with pytest.raises(lastbit.InputError, match="found a run, expected a folder without one; resume continues this run"):
        Probe(model, CRITERION, images(6), out=tmp_path / "run")
    for arguments, match in [
        ({"preset": "fast"}, 'preset: found \'fast\', expected "cheap" or "full"'),
        ({"measures": ["speed"]}, "measures: found 'speed'"),
        ({"every": 0}, "every: found 0"),
        ({"share": 0.0}, "share: found 0.0"),
        ({"growth_steps": 3}, "growth_steps: found 3"),
    ]:
        with pytest.raises(ValueError, match=match):
            Probe(model, CRITERION, images(6), out=tmp_path / "other", **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="batches: found none"):
        Probe(model, CRITERION, out=tmp_path / "other")
    with pytest.raises(ValueError, match="found none of the model's parameters"):
        Probe(model, CRITERION, images(6), torch.optim.SGD(network().parameters()), out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_steps_that_do_not_rise_are_named_once(tmp_path: Path) -> None:
    probe = Probe(network(), CRITERION, images(6), out=tmp_path / "run", every=1, measures="fingerprint")
    probe.step(5)
    with pytest.warns(RuntimeWarning, match="step: found 1 after 5"):
        probe.step(1)
    probe.step(6)
    probe.close()
    assert lastbit.read(tmp_path / "run").metrics["step"].tolist() == [5, 6]


def test_a_full_disk_ends_the_probe_and_not_the_training(tmp_path: Path) -> None:
    class Full:
        def append(self, row: str, fingerprint: str | None) -> None:
            raise lastbit.LastbitError("no space left on device")

        def close(self) -> None:
            raise lastbit.LastbitError("no space left on device")

    probe = Probe(network(), CRITERION, images(6), out=tmp_path / "run", every=1, measures=["fingerprint"])
    probe.step(1)
    probe._run = Full()  # type: ignore[assignment]
    with pytest.warns(RuntimeWarning, match="no space left on device; nothing is measured any more"):
        probe.step(2)
    probe.step(3)
    assert probe.close() is None
    assert lastbit.read(tmp_path / "run").metrics["step"].tolist() == [1]


def test_an_exception_of_the_training_leaves_a_run_that_has_not_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Probe(network(), CRITERION, images(6), out=tmp_path / "run", every=1) as probe:
        probe.step(1)
        raise KeyError("training")
    run = lastbit.read(tmp_path / "run")
    assert run.summary is None and run.metrics["step"].tolist() == [1]


DISTRIBUTED = """
import sys, torch
sys.path.insert(0, {tests!r})
import test_torch_probe as tests
import torch_models as models
from lastbit.torch import Probe

rank = int(sys.argv[1])
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
hashes = []
for probed in (False, True):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(tests.network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    probe = Probe(model, tests.CRITERION, tests.images(6), optimizer, out="run", preset="full", every=2) if probed else None
    torch.manual_seed(rank)
    for step in range(1, 5):
        optimizer.zero_grad()
        x, y = tests.images(8)
        tests.CRITERION(model(x[rank::2]), y[rank::2]).backward()
        optimizer.step()
        if probe:
            probe.step(step)
    hashes.append(models.everything(model, optimizer))
if probe:
    assert (probe.close() is not None) == (rank == 0)
assert hashes[0] == hashes[1], "the probe changed the training"
torch.distributed.destroy_process_group()
"""


def test_in_a_distributed_training_rank_0_measures_and_no_process_is_changed(tmp_path: Path) -> None:
    code = DISTRIBUTED.format(tests=str(Path(__file__).parent))
    environment = os.environ | {"PYTHONPATH": str(Path(lastbit.__file__).resolve().parents[1])}
    called = [sys.executable, "-W", "ignore", "-c", code]
    processes = [
        subprocess.Popen([*called, str(rank), str(tmp_path / "meeting")], cwd=tmp_path, env=environment) for rank in (0, 1)
    ]
    assert [process.wait() for process in processes] == [0, 0]
    run = lastbit.read(tmp_path / "run")
    assert run.metrics["step"].tolist() == [2, 4] and np.isfinite(run.metrics["growth_per_step"]).all()
    assert run.settings["model"]["class"] == "Sequential"


TRAINING = """
import os, signal, sys, torch
sys.path.insert(0, {tests!r})
import test_torch_probe as tests
from lastbit.torch import Probe

resume, killed_at = sys.argv[1] == "resume", int(sys.argv[2])
model = tests.network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = tests.images()
begin = 0
if resume:
    begin, state = torch.load("checkpoint.pt")
    model.load_state_dict(state)
probe = Probe(model, tests.CRITERION, (x[:6], y[:6]), optimizer, out="run", preset="full", every=2,
              measures=["sharpness", "fingerprint"], resume=resume)
model.eval()
for step in range(begin + 1, 13):
    optimizer.zero_grad()
    loss = tests.CRITERION(model(x), y)
    loss.backward()
    optimizer.step()
    probe.step(step, loss=loss)
    if step == 5:
        torch.save((step, model.state_dict()), "checkpoint.pt")
    if step == killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
probe.close()
"""


def test_a_killed_training_can_be_read_reported_verified_and_resumed(
    tmp_path: Path, command: Callable[..., dict[str, Any]]
) -> None:
    code = TRAINING.format(tests=str(Path(__file__).parent))
    environment = os.environ | {"PYTHONPATH": str(Path(lastbit.__file__).resolve().parents[1])}

    def run(*arguments: str) -> int:
        return subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment, check=False).returncode

    assert run("new", "9") == -signal.SIGKILL
    killed = lastbit.read(tmp_path / "run")
    assert killed.metrics["step"].tolist() == [2, 4, 6, 8] and killed.summary is None
    assert "not finished" in str(killed)
    found = command("verify", "run")
    assert (found["runs"], found["damaged"]) == (1, [])
    assert any("has not ended" in note["message"] for note in found["notes"])
    assert len(command("report", "--out", "run")["records"]) == 1
    assert "Not finished; so far: " in (tmp_path / "run" / "report.html").read_text()
    assert run("resume", "0") == 0
    resumed = lastbit.read(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "resumed")
    assert run("new", "0") == 0
    straight = lastbit.read(tmp_path / "run")
    for name, column in straight.metrics.items():
        if not name.endswith("_seconds"):
            assert np.array_equal(resumed.metrics[name], column), name
    assert resumed.fingerprints() == straight.fingerprints()
    assert resumed.summary is not None and straight.summary is not None
    assert resumed.summary["edge"] == straight.summary["edge"]
    found = command("verify", "resumed")
    assert (found["damaged"], found["notes"]) == ([], [])
    command("report", "--out", "resumed")
    sentence = straight.summary["answer"].split(": ")[0]
    assert sentence.startswith("The training ran ")
    assert sentence in (tmp_path / "resumed" / "report.html").read_text()


def test_a_probe_that_nobody_closes_writes_its_page_at_the_end_of_the_process(tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_torch_probe as tests
        probe = tests.Probe(tests.network(), tests.CRITERION, tests.images(6), out="run", every=1, measures="fingerprint")
        for step in range(4):
            probe.step(step)
    """)
    environment = os.environ | {"PYTHONPATH": str(Path(lastbit.__file__).resolve().parents[1])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["cells"][0]["numbers"]["rows"] == 4
    assert not (tmp_path / "run" / "lock").exists()
