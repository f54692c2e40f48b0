"""Perturbations at the level of rounding."""

import copy
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim import Optimizer  # noqa: E402

from lastbit.torch import fingerprint, perturb  # noqa: E402

torch.set_num_threads(1)

SGD = torch.optim.SGD
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.9},
    "momentum, decay": {"momentum": 0.9, "weight_decay": 0.1},
    "dampening": {"momentum": 0.9, "dampening": 0.3},
    "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "nesterov without decay": {"momentum": 0.9, "nesterov": True},
    "maximize": {"maximize": True, "weight_decay": 0.1},
    "maximize, nesterov": {"maximize": True, "momentum": 0.9, "nesterov": True},
}
IMPLEMENTATIONS: dict[str, dict[str, Any]] = {"foreach": {"foreach": True}, "loop": {"foreach": False}}


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 33), nn.Tanh(), nn.Linear(33, 2)).to(dtype)


def train(model: nn.Module, optimizer: Optimizer, steps: int = 6, after: Callable[[], None] = lambda: None) -> None:
    dtype = next(model.parameters()).dtype
    for n in range(steps):
        x, y = models.data(5, 3, seed=n, dtype=dtype), models.labels(5, 2, seed=n)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        after()


def result(make: Callable[[nn.Module], Optimizer], k: float | None, dtype: torch.dtype = torch.float32) -> str:
    model = network(dtype)
    optimizer = make(model)
    if k is not None:
        perturb(optimizer, k=k)
    train(model, optimizer)
    return fingerprint(model).total


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_powers_of_two_change_nothing_and_3_does(variant: str, implementation: str) -> None:
    def make(model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1, **VARIANTS[variant], **IMPLEMENTATIONS[implementation])

    plain = result(make, None)
    assert {k: result(make, k) == plain for k in (1, 2, 4, 0.5, 3)} == {1: True, 2: True, 4: True, 0.5: True, 3: False}


def left_by(
    k: float | None, variant: str, implementation: str, dtype: torch.dtype = torch.float32, form: Any = lambda x: x
) -> list[Tensor]:
    """Parameters, gradients and momentum after three steps with two odd-sized tensors; the second gets no gradient at first."""
    params = [nn.Parameter(form(models.data(7, 5, 3, 3, seed=n, dtype=dtype))) for n in (1, 2)]
    optimizer = SGD(params, lr=0.1, **VARIANTS[variant], **IMPLEMENTATIONS[implementation])
    if k is not None:
        perturb(optimizer, k=k)
    for n in range(3):
        for p, seed in zip(params, (n, n + 50), strict=True):
            p.grad = None if n == 0 and p is params[1] else form(models.data(7, 5, 3, 3, seed=seed + 9, dtype=dtype))
        optimizer.step()
    buffers = [optimizer.state[p]["momentum_buffer"] for p in params if optimizer.state[p]]
    return [p.detach() for p in params] + [p.grad for p in params] + buffers


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 1),
    "with gaps": lambda x: torch.stack([x, x], dim=-1)[..., 0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_form_of_tensor_gets_the_bits_of_pytorchs_step(
    implementation: str, form: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 315 entries in blocks of 100, so that tensors are cut.
    monkeypatch.setattr("lastbit.torch._sgd_step.ENTRIES", 100)
    for variant in VARIANTS:
        plain, same, other = (left_by(k, variant, implementation, dtype, FORMS[form]) for k in (None, 4, 3))
        # Gradients too: PyTorch's foreach implementation of Nesterov momentum writes into them.
        assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(plain, same, strict=True)), variant
        assert not all(torch.equal(a, b) for a, b in zip(plain[:2], other[:2], strict=True)), variant
        if "weight_decay" not in VARIANTS[variant]:
            # The gradients are given, so momentum does not depend on the parameters.
            assert all(torch.equal(a, b) for a, b in zip(plain[2:], other[2:], strict=True)), variant


def test_a_large_tensor_is_cut_without_another_rounding() -> None:
    """Blocks, threads and the remainders of vector loops: with two threads and a size that fits none of them."""
    n = 3 * 2**19 + 777
    values = [models.data(n, seed=seed, dtype=torch.float32) for seed in (1, 2, 3)]
    found = []
    torch.set_num_threads(2)
    try:
        for k in (None, 0.5, 3):
            parameter = nn.Parameter(values[0].clone())
            optimizer = SGD([parameter], lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)
            if k is not None:
                perturb(optimizer, k=k)
            for gradient in values[1:]:
                parameter.grad = gradient.clone()
                optimizer.step()
            found.append(parameter.detach())
    finally:
        torch.set_num_threads(1)
    assert torch.equal(found[0], found[1])
    # Rounding differs in many entries of each block, by a few units in the last place of numbers up to 6.
    for ours, plain in zip(found[2].split(2**18), found[0].split(2**18), strict=True):
        assert (ours != plain).float().mean() > 0.1
        assert (ours - plain).abs().max() < 8 * 2.0**-21


def test_a_closure_gives_the_gradients_of_its_step() -> None:
    def trained(k: float | None) -> tuple[str, list[float]]:
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
        if k is not None:
            perturb(optimizer, k=k)
        x, y = models.data(5, 3, dtype=torch.float32), models.labels(5, 2)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        return fingerprint(model).total, losses

    assert trained(2) == trained(None) != trained(3)


def test_an_exception_of_the_closure_leaves_everything_as_it_was() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, 1)
    perturbation = perturb(optimizer)
    before = models.everything(model, optimizer)

    def closure() -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optimizer.step(closure)
    assert models.everything(model, optimizer) == before
    assert perturbation.steps == 0
    train(model, optimizer, 1)
    assert perturbation.steps == 1


def test_a_state_that_is_loaded_in_the_middle_continues() -> None:
    """From a plain run into a perturbed one and back: with k = 2 the bits of the plain run."""
    prints = []
    for k in (None, 2):
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        train(model, optimizer, 2)
        saved = copy.deepcopy(optimizer.state_dict())
        optimizer = SGD(model.parameters(), lr=0.5, momentum=0.9)
        perturbation = perturb(optimizer, k=k) if k else None
        optimizer.load_state_dict(saved)
        train(model, optimizer, 2)
        saved = copy.deepcopy(optimizer.state_dict())
        if perturbation is not None:
            assert perturbation.steps == 2
            perturbation.remove()
        optimizer.load_state_dict(saved)
        train(model, optimizer, 2)
        prints.append(fingerprint(model).total)
    assert prints[0] == prints[1]


def test_a_gradient_scaler_skips_and_scales_as_without() -> None:
    prints = {}
    for k in (None, 4, 3):
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        perturbation = perturb(optimizer, k=k) if k else None
        for n in range(4):
            optimizer.zero_grad()
            # The second step has an infinite gradient, and is skipped.
            x = models.data(5, 3, seed=n, dtype=torch.float32) * (float("inf") if n == 1 else 1.0)
            scaler.scale(model(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        prints[k] = fingerprint(model).total
        assert perturbation is None or perturbation.steps == 3
    assert prints[4] == prints[None] != prints[3]


def test_hooks_of_the_user_see_gradients_and_the_step() -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    seen: list[bool] = []
    start = fingerprint(model)
    optimizer.register_step_post_hook(lambda *_: seen.append(fingerprint(model) != start))
    perturb(optimizer)
    optimizer.register_step_pre_hook(lambda *_: seen.append(all(p.grad is not None for p in model.parameters())))
    train(model, optimizer, 1)
    assert seen == [True, True]


def test_a_wrapped_optimizer_is_perturbed() -> None:
    accelerate = pytest.importorskip("accelerate")
    prints = {}
    for k in (None, 2, 3):
        accelerator = accelerate.Accelerator(cpu=True)
        model = network()
        model, optimizer = accelerator.prepare(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
        if k is not None:
            perturb(optimizer, k=k)
        train(model, optimizer, 2)
        prints[k] = fingerprint(model).total
    assert prints[2] == prints[None] != prints[3]


def test_steps_whose_order_of_roundings_is_another_are_refused() -> None:
    for flag in ("fused", "differentiable"):
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1, **{flag: True})
        with pytest.raises(ValueError, match=f"optimizer: found {flag}=True, expected"):
            perturb(optimizer)
        with perturb(optimizer, "ulp"):
            pass
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = SGD(embedding.parameters(), lr=0.1)
    before = fingerprint(embedding)
    with perturb(optimizer), pytest.raises(ValueError, match="optimizer: found a sparse gradient, expected dense ones"):
        embedding(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
    assert fingerprint(embedding) == before
    optimizer.step()
    assert fingerprint(embedding) != before


def test_a_step_that_does_not_ask_for_parameters_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    perturb(optimizer)
    del optimizer._init_group
    with pytest.raises(RuntimeError, match="optimizer: found a step of PyTorch .* that was not perturbed"):
        train(model, optimizer, 1)


def test_an_optimizer_that_is_used_no_more_is_freed() -> None:
    optimizer = SGD(network().parameters(), lr=0.1)
    perturb(optimizer)
    alive = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert alive() is None


def test_several_groups_and_a_learning_rate_in_a_tensor() -> None:
    def make(model: nn.Module) -> Optimizer:
        groups = [
            {"params": model[0].parameters(), "momentum": 0.9, "nesterov": True},
            {"params": model[2].parameters(), "lr": 0.03, "weight_decay": 0.1},
        ]
        return SGD(groups, lr=0.1)

    assert result(make, 1) == result(make, 2) == result(make, None) != result(make, 3)

    def with_tensor(model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=torch.tensor(0.1), momentum=0.9)

    assert result(with_tensor, 2) == result(with_tensor, None)


def test_gradients_and_momentum_are_those_of_the_step_itself() -> None:
    models_, optimizers = [network(), network()], []
    for model in models_:
        optimizers.append(SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1))
    perturb(optimizers[1], k=3)
    for model, optimizer in zip(models_, optimizers, strict=True):
        train(model, optimizer, 1)
    first, second = ([optimizer.state[p]["momentum_buffer"] for p in model.parameters()] for model, optimizer in zip(models_, optimizers, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    first, second = ([p.grad for p in model.parameters()] for model in models_)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def fused_multiply_add(a: np.ndarray, b: np.float32, c: np.ndarray) -> np.ndarray:
    """``a + b c`` rounded once. The product of two float32 is exact in float64, and so is a longer mantissa of the sum."""
    exact = a.astype(np.longdouble) + np.longdouble(b) * c.astype(np.longdouble)
    return exact.astype(np.float32)


def test_rounding_of_a_plain_step() -> None:
    """k d is rounded once; then PyTorch adds -lr/k times it, as its own step adds -lr times d.

    That sum is one fused multiply-add where the CPU has one, else a product and a sum, each rounded.
    """
    k, lr = 3, 0.1
    p, d = models.data(1003, dtype=torch.float32), models.data(1003, seed=5, dtype=torch.float32)
    parameter = nn.Parameter(p.clone())
    parameter.grad = d.clone()
    optimizer = SGD([parameter], lr=lr)
    perturb(optimizer, k=k)
    optimizer.step()
    factor, scaled = np.float32(-lr / k), np.float32(k) * d.numpy()
    fused = fused_multiply_add(p.numpy(), factor, scaled)
    separate = p.numpy() + factor * scaled
    assert (fused != separate).any()
    found = parameter.detach().numpy()
    assert np.array_equal(found, fused) or np.array_equal(found, separate)
    # The same sum without the detour over k d, the other way round, is another one.
    assert (found != fused_multiply_add(p.numpy(), np.float32(-lr), d.numpy())).any()
    assert np.abs(found - (p.double() - lr * d.double()).numpy()).max() < 3 * 2.0**-24 * (np.abs(found).max() + 1)


def distances(build: Callable[[], nn.Module], batch: Any, loss: Any, k: float, steps: int = 20, lr: float = 0.05) -> list[float]:
    copies = [build(), build()]
    optimizers = [SGD(model.parameters(), lr=lr, momentum=0.9) for model in copies]
    perturb(optimizers[1], k=k)
    found = []
    for _ in range(steps):
        for model, optimizer in zip(copies, optimizers, strict=True):
            torch.manual_seed(1)
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
        pairs = zip(copies[0].parameters(), copies[1].parameters(), strict=True)
        found.append(sum((a.detach().double() - b.detach().double()).square().sum().item() for a, b in pairs) ** 0.5)
    return found


def test_copies_of_a_resnet_diverge() -> None:
    pytest.importorskip("torchvision")
    batch = (models.data(4, 3, 8, 8, dtype=torch.float32), models.labels(4, 3))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    found = distances(models.small_resnet, batch, loss, 3)
    assert 0 < found[0] < found[9] < found[19]
    assert found[19] > 10 * found[0]
    assert distances(models.small_resnet, batch, loss, 2, steps=2) == [0, 0]


def test_copies_of_a_gpt2_diverge() -> None:
    pytest.importorskip("transformers")
    found = distances(models.gpt2, models.gpt2_batch(), models.own_loss, 3)
    assert 0 < found[0] < found[9] < found[19]
    assert found[19] > 5 * found[0]
    assert distances(models.gpt2, models.gpt2_batch(), models.own_loss, 4, steps=3) == [0, 0, 0]


@pytest.mark.parametrize("kind", ["k", "ulp", "ulps"])
def test_remove_restores_everything(kind: str) -> None:
    model, other = network(), network()
    optimizer, unperturbed = (SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, other))
    with perturb(optimizer, kind) as perturbation:
        train(model, optimizer, 2)
        assert perturbation.steps == 2
        with pytest.raises(ValueError, match="optimizer: found one that is perturbed already"):
            perturb(optimizer, kind)
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
    assert "_init_group" not in vars(optimizer) and "_lastbit_perturbation" not in vars(optimizer)
    other.load_state_dict(model.state_dict())
    unperturbed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for m, o in ((model, optimizer), (other, unperturbed)):
        train(m, o, 3)
    assert fingerprint(model) == fingerprint(other)
    assert optimizer.state_dict()["param_groups"] == unperturbed.state_dict()["param_groups"]
    perturbation.remove()
    with perturb(optimizer, kind):
        pass


@pytest.mark.parametrize("kind", ["ulp", "ulps"])
def test_a_step_that_is_captured_in_a_cuda_graph_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    with perturb(optimizer, kind):
        train(model, optimizer, 1)
        before = fingerprint(model)
        monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
        monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: True)
        with pytest.raises(RuntimeError, match="optimizer: found a step that is captured in a CUDA graph, expected one outside"):
            optimizer.step()
        monkeypatch.undo()
    assert fingerprint(model) == before


def ulps_moved(seed: int, steps: int = 12, first: int = 0) -> list[tuple[str, int, int]]:
    """Name, entry and number of ulps of what moved at each step beyond the optimizer's own step."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    perturbation = perturb(optimizer, "ulp", seed=seed)
    perturbation.steps = first
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    moves: list[tuple[str, int, int]] = []

    def record() -> None:
        changed = []
        for name, p in model.named_parameters():
            # Neighbouring floating-point numbers of one sign are neighbouring integers.
            difference = p.detach().view(torch.int32).reshape(-1) - before[name].view(torch.int32).reshape(-1)
            changed += [(name, int(i), int(difference[i])) for i in difference.nonzero()]
            before[name] = p.detach().clone()
        assert len(changed) == 1, changed
        moves.extend(changed)

    train(model, optimizer, steps, record)
    return moves


def test_one_entry_moves_by_one_ulp_at_each_step() -> None:
    moves = ulps_moved(0)
    assert len(moves) == 12
    assert {abs(ulps) for _, _, ulps in moves} == {1}
    assert {ulps for _, _, ulps in moves} == {-1, 1}
    assert len({(name, entry) for name, entry, _ in moves}) > 6


def test_draws_depend_on_seed_and_step_alone() -> None:
    torch.manual_seed(1)
    first = ulps_moved(0)
    torch.manual_seed(2)
    assert ulps_moved(0) == first
    assert ulps_moved(1) != first
    # After a resume at step 5.
    assert [move[:2] for move in ulps_moved(0, 4, first=5)] == [move[:2] for move in first[5:9]]


def test_draws_do_not_depend_on_the_rank_and_leave_the_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ulps_moved(3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert ulps_moved(3) == first
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1)
    perturb(optimizer, "ulp")
    state = torch.get_rng_state()
    train(model, optimizer, 1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ["k", "ulp", "ulps"])
def test_a_scheduler_does_not_warn(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1)
        early = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        perturb(optimizer, kind)
        late = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        train(model, optimizer, 2, lambda: (early.step(), late.step()))


def test_the_learning_rate_of_a_scheduler_is_used() -> None:
    prints = []
    for k in (None, 2):
        model = network()
        optimizer = SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
        if k:
            perturb(optimizer, k=k)
        train(model, optimizer, 4, scheduler.step)
        prints.append(fingerprint(model).total)
    assert prints[0] == prints[1]


def test_half_precision_entries_move_by_one_ulp() -> None:
    p = nn.Parameter(models.data(7, dtype=torch.bfloat16))
    before = p.detach().clone()
    optimizer = SGD([p], lr=0.0)
    perturb(optimizer, "ulp")
    p.grad = torch.zeros_like(p)
    optimizer.step()
    difference = p.detach().view(torch.int16).int() - before.view(torch.int16).int()
    assert sorted(difference.abs().tolist()) == [0] * 6 + [1]


def test_bad_arguments() -> None:
    optimizer = torch.optim.Adam(network().parameters())
    for message, kwargs in [
        ('kind: found \'bits\', expected "k", "ulp" or "ulps"', {"kind": "bits"}),
        ("optimizer: found Adam, expected torch.optim.SGD", {"kind": "k"}),
    ]:
        with pytest.raises(ValueError, match=message):
            perturb(optimizer, **kwargs)
    sgd = SGD(network().parameters(), lr=0.1)
    for k in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="k: found"):
            perturb(sgd, k=k)
    with pytest.raises(TypeError, match="optimizer: found Sequential, expected a torch.optim.Optimizer"):
        perturb(network())
    perturb(sgd).remove()
