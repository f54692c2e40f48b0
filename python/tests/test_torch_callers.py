"""Unusual models, batches and callers: the same numbers as for the usual ones, or one clear exception."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.torch import critical_lr, fingerprint, growth, perturb, sharpness  # noqa: E402

torch.set_num_threads(1)

CRITERION = nn.CrossEntropyLoss()
X, Y = models.data(6, 3, dtype=torch.float32), models.labels(6, 2)


def network() -> nn.Module:
    torch.manual_seed(0)
    return models.mlp()


def sgd(model: nn.Module, **options: Any) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), **({"lr": 0.1} | options))


def numbers(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any = (X, Y), loss: Any = CRITERION) -> list[Any]:
    """What the functions find; they leave model and optimizer as they are."""
    before = models.everything(model, optimizer)
    found = sharpness(model, loss, batch, optimizer=optimizer)
    critical = critical_lr(model, loss, batch, optimizer)
    grown = growth(model, loss, batch, optimizer, steps=64)
    assert models.everything(model, optimizer) == before
    return [found.eigenvalues, found.edge_ratio, critical.lower, critical.upper, grown.verdict, grown.growth_per_step]


def usual() -> list[Any]:
    model = network()
    return numbers(model, sgd(model))


@contextlib.contextmanager
def deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, deterministic])
def test_the_mode_of_the_caller_does_not_matter(mode: Callable[[], Any]) -> None:
    model = network()
    optimizer = sgd(model)
    with mode():
        inside = numbers(model, optimizer)
    assert inside == usual()


def test_autocast_of_the_caller() -> None:
    model = network()
    optimizer = sgd(model)
    steps: list[Tensor] = []

    def loss(m: nn.Module, batch: Any) -> Tensor:
        output = m(batch[0])
        steps.append(output.detach().clone())
        return CRITERION(output.float(), batch[1])

    exact, critical = sharpness(model, CRITERION, (X, Y)), critical_lr(model, CRITERION, (X, Y), optimizer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = sharpness(model, CRITERION, (X, Y))
        assert critical_lr(model, CRITERION, (X, Y), optimizer).upper == critical.upper
        growth(model, loss, (X, Y), optimizer, steps=64)
        assert torch.is_autocast_cache_enabled()
    assert found.eigenvalues == exact.eigenvalues
    assert found.notes == ["measured without autocast, which was on outside of loss_fn"]
    # Trainings are as the caller makes them; their steps must be seen, in spite of autocast's cache of weights.
    assert steps[0].dtype == torch.bfloat16
    assert not torch.equal(steps[0], steps[-1])


def test_a_batch_that_was_made_in_inference_mode() -> None:
    with torch.inference_mode():
        x = X.clone()
    model = network()
    assert numbers(model, sgd(model), (x, Y)) == usual()


def test_models_in_wrappers() -> None:
    model = network()
    wrapped = nn.DataParallel(model)
    assert numbers(wrapped, sgd(wrapped)) == usual()


def test_a_wrapped_optimizer() -> None:
    accelerate = pytest.importorskip("accelerate")
    model = network()
    model, optimizer = accelerate.Accelerator(cpu=True).prepare(model, sgd(model))
    assert numbers(model, optimizer) == usual()


def test_a_functional_call() -> None:
    def loss(m: nn.Module, batch: Any) -> Tensor:
        return CRITERION(torch.func.functional_call(m, dict(m.named_parameters()), (batch[0],)), batch[1])

    model = network()
    assert numbers(model, sgd(model), loss=loss) == usual()


def test_a_loss_of_shape_1_and_a_learning_rate_in_a_tensor() -> None:
    model = network()
    optimizer = sgd(model, lr=torch.tensor(0.1, dtype=torch.float64))
    assert numbers(model, optimizer, loss=lambda m, b: CRITERION(m(b[0]), b[1]).reshape(1)) == usual()


def test_a_loader_with_workers() -> None:
    dataset = torch.utils.data.TensorDataset(X, Y)
    model = network()
    before = models.everything(model)
    found = sharpness(model, CRITERION, torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=1), tolerance=1e-5)
    assert models.everything(model) == before
    # In float32 the sum over batches has other roundings, of 6e-8 each.
    assert found.sharpness == pytest.approx(sharpness(model, CRITERION, (X, Y), tolerance=1e-5).sharpness, rel=1e-5)


def test_a_batch_keeps_its_type() -> None:
    transformers = pytest.importorskip("transformers")
    model, batch = models.gpt2(7, 8, 1), models.gpt2_batch(3, 7)
    encoding = transformers.BatchEncoding(batch)
    plain = sharpness(model, models.own_loss, batch)
    for batches in (encoding, [encoding]):
        found = sharpness(model, lambda m, b: m(input_ids=b.input_ids, labels=b["labels"]).loss, batches)
        assert found.eigenvalues == plain.eigenvalues


class Counting(nn.Module):
    """Buffers that are no floating-point numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("nothing", None)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x * self.mask)


def test_buffers_that_are_no_floating_point_numbers() -> None:
    torch.manual_seed(0)
    model = Counting()
    numbers(model, sgd(model))
    half = Counting().bfloat16()
    before = models.everything(half)
    assert sharpness(half, CRITERION, (X.bfloat16(), Y)).converged
    assert models.everything(half) == before


def test_a_tied_parameter_is_selected_by_each_of_its_names() -> None:
    model, batch = models.double(models.Tied()), (models.data(5, 4), models.data(5, 4, seed=5))
    by_name = {name: sharpness(model, nn.MSELoss(), batch, params=name) for name in ("encoder.weight", "decoder.weight")}
    assert by_name["encoder.weight"].eigenvalues == by_name["decoder.weight"].eigenvalues
    assert sharpness(model, nn.MSELoss(), batch, params="decoder.*").parameters == 20
    assert sharpness(model, nn.MSELoss(), batch, params=lambda name: name == "decoder.weight").parameters == 16


def test_parameters_that_were_frozen_since() -> None:
    model = network()
    found = sharpness(model, CRITERION, (X, Y))
    model[0].requires_grad_(False)
    with pytest.raises(ValueError, match="start: found a measurement of 32 parameters, expected one of 12"):
        sharpness(model, CRITERION, (X, Y), start=found)
    numbers(model, sgd(model))


def test_lazy_modules_without_shapes_are_refused() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = sgd(model)
    calls: list[Callable[[], Any]] = [
        lambda: sharpness(model, CRITERION, (X, Y)),
        lambda: critical_lr(model, CRITERION, (X, Y), optimizer),
        lambda: growth(model, CRITERION, (X, Y), optimizer),
        lambda: fingerprint(model),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"model: found the uninitialized parameter 0\.\w+ of a lazy module, expected"):
            call()


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.complex(models.data(3, 2), models.data(3, 2, seed=5)))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.weight.dtype) @ self.weight).abs()


def test_complex_parameters_are_refused_but_perturbed() -> None:
    x = X.double()
    model = Complex()
    optimizer = sgd(model)
    for call in (lambda: sharpness(model, CRITERION, (x, Y)), lambda: critical_lr(model, CRITERION, (x, Y), optimizer)):
        with pytest.raises(ValueError, match="model: found complex parameters, expected real ones"):
            call()
    with pytest.raises(ValueError, match=r"model: found parameters of torch\.complex128, expected"):
        growth(model, CRITERION, (x, Y), optimizer)

    def trained(**perturbation: Any) -> Tensor:
        model = Complex()
        optimizer = sgd(model, lr=1.0, momentum=0.9)
        if perturbation:
            perturb(optimizer, **perturbation)
        for _ in range(10):
            optimizer.zero_grad()
            CRITERION(model(x), Y).backward()
            optimizer.step()
        return model.weight.detach()

    assert torch.equal(trained(k=4), trained())
    assert not torch.equal(trained(k=3), trained())
    assert (trained(kind="ulp") - trained()).abs().max() < 1e-12
    assert not torch.equal(trained(kind="ulp"), trained())
