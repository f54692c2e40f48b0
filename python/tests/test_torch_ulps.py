"""Perturbation of every entry of every parameter."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim import Optimizer  # noqa: E402

from lastbit.torch import _ulps, fingerprint, perturb  # noqa: E402

torch.set_num_threads(1)

INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 33), nn.Tanh(), nn.Linear(33, 2))


def train(model: nn.Module, optimizer: Optimizer, steps: int, first: int = 0) -> None:
    for n in range(first, first + steps):
        x, y = models.data(5, 3, seed=n, dtype=torch.float32), models.labels(5, 2, seed=n)

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        # All optimizers take a closure; LBFGS needs one.
        optimizer.step(closure)


def ulps_between(after: Tensor, before: Tensor) -> Tensor:
    """Of numbers of one sign: neighbours are neighbouring integers."""
    integer = INTEGERS[before.dtype]
    return after.detach().contiguous().view(integer).long() - before.contiguous().view(integer).long()


def moved(values: Tensor, seed: int = 1) -> Tensor:
    """The values after the perturbation at registration."""
    p = nn.Parameter(values.clone())
    perturb(torch.optim.Adam([p]), "ulps", seed=seed).remove()
    return p.detach()


#: Draws of one number of a move: its difference to another one is in ulps.
DRAWS = {dtype: 16 if dtype in (torch.float32, torch.float64) else 2 for dtype in INTEGERS}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_move_is_the_difference_of_two_draws(dtype: torch.dtype) -> None:
    n, draws = 200_001, DRAWS[dtype]
    before = models.data(n, dtype=torch.float64).to(dtype)
    # Numbers from which a move could lead to zero stay.
    before[before.view(INTEGERS[dtype]).abs() < draws] = 1
    before[before == 0] = 1
    ulps = ulps_between(moved(before), before)
    assert set(ulps.tolist()) == set(range(1 - draws, draws))
    for step in range(1 - draws, draws):
        probability = (draws - abs(step)) / draws**2
        # Five standard deviations of a count of n draws; the draws are fixed by the seed.
        assert abs((ulps == step).sum().item() - n * probability) < 5 * (n * probability * (1 - probability)) ** 0.5
    # Neighbouring entries, and entries of the same place in two bytes, integers of draws and blocks, move independently.
    variance = (draws**2 - 1) / 6
    for lag in (1, 2, 4, 8, 32, _ulps.ENTRIES_OF_A_THREAD):
        products = (ulps[lag:] * ulps[:-lag]).sum().item()
        # Each product has mean 0 and the square of the variance of a move as its variance.
        assert abs(products) < 5 * n**0.5 * variance, lag
    # Up and down in value, not only away from zero and towards it.
    positive = before > 0
    assert (ulps[positive] == 1).any() and (ulps[~positive] == 1).any()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_zeros_and_what_has_no_finite_neighbour_stay(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), largest, -largest], dtype=dtype)
    smallest = torch.tensor([1], dtype=INTEGERS[dtype]).view(dtype)
    before = torch.cat([special, smallest]).repeat(40)
    after = moved(before)
    assert torch.equal(after.view(INTEGERS[dtype]), before.view(INTEGERS[dtype]))
    # Subnormal numbers move as others do, down to the smallest from which no move leads to zero.
    draws = DRAWS[dtype]
    subnormal = torch.tensor([draws], dtype=INTEGERS[dtype]).view(dtype).repeat(9999)
    assert set(ulps_between(moved(subnormal), subnormal).tolist()) == set(range(1 - draws, draws))


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 1),
    "with gaps": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "complex": lambda x: torch.complex(x, x + 1),
    "one number": lambda x: x[0, 0, 0, 0],
}


@pytest.mark.parametrize("form", FORMS)
def test_tensors_in_any_form_move(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ulps, "ENTRIES_OF_A_THREAD", 64)
    before = FORMS[form](models.data(7, 5, 3, 3, dtype=torch.float32))
    base = before.clone(memory_format=torch.preserve_format)
    p = nn.Parameter(before)
    for _ in range(9):
        perturb(torch.optim.Adam([p]), "ulps", seed=4).remove()
    assert p.stride() == before.stride()
    parts = (torch.view_as_real(p.detach()), torch.view_as_real(base)) if p.is_complex() else (p.detach(), base)
    ulps = ulps_between(*parts)
    # Nine times the same draw (a zero of the data stays).
    assert set(ulps.flatten().tolist()) <= {9 * step for step in range(-15, 16)}
    if p.numel() > 1:
        assert (ulps > 0).any() and (ulps < 0).any()


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = models.data(1000, dtype=torch.float32)
    whole = moved(values)
    monkeypatch.setattr(_ulps, "ENTRIES_OF_A_THREAD", 96)
    assert torch.equal(moved(values), whole)


OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (getattr(torch.optim, name), {"lr": 0.01}) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam")},
    **{name: (getattr(torch.optim, name), {"lr": 0.01}) for name in ("RAdam", "Adamax", "ASGD", "Rprop", "Adadelta", "LBFGS")},
    "fused SGD": (torch.optim.SGD, {"lr": 0.1, "fused": True}),
    "fused AdamW": (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    "foreach Adam": (torch.optim.Adam, {"lr": 0.01, "foreach": True}),
    "loop Adam": (torch.optim.Adam, {"lr": 0.01, "foreach": False}),
    "amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_all_optimizers_are_perturbed_and_resume(name: str) -> None:
    make, options = OPTIMIZERS[name]

    def begin(seed: int | None) -> tuple[nn.Module, Optimizer, Any]:
        model = network()
        optimizer = make(model.parameters(), **options)
        return model, optimizer, perturb(optimizer, "ulps", seed=seed) if seed is not None else None

    prints = {}
    for seed in (None, 1, 2):
        model, optimizer, _ = begin(seed)
        train(model, optimizer, 4)
        prints[seed] = fingerprint(model).total
    assert len(set(prints.values())) == 3

    model, optimizer, perturbation = begin(1)
    train(model, optimizer, 2)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), perturbation.steps))
    model, optimizer, perturbation = begin(1)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    perturbation.steps = saved[2]
    train(model, optimizer, 2, first=2)
    assert fingerprint(model).total == prints[1]
    assert perturbation.steps == 4


def test_the_first_forward_pass_sees_the_perturbation() -> None:
    model, other = network(), network()
    with perturb(torch.optim.SGD(model.parameters(), lr=0.1), "ulps", seed=1):
        assert not torch.equal(model(torch.ones(1, 3)), other(torch.ones(1, 3)))


def test_draws_depend_on_seed_step_and_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(seed: int) -> str:
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
        perturb(optimizer, "ulps", seed=seed)
        train(model, optimizer, 3)
        return fingerprint(model).total

    first = result(3)
    torch.manual_seed(99)
    monkeypatch.setenv("RANK", "1")
    torch.set_num_threads(2)
    try:
        assert result(3) == first
    finally:
        torch.set_num_threads(1)
    assert result(4) != first
    before = torch.get_rng_state()
    moved(torch.ones(5))
    assert torch.equal(torch.get_rng_state(), before)
    # Two parameters alike move in different ways; so does one at two steps.
    pair = [nn.Parameter(torch.ones(64)) for _ in range(2)]
    optimizer = torch.optim.SGD(pair, lr=0.0)
    perturb(optimizer, "ulps")
    assert not torch.equal(*pair)
    at_once = pair[0].detach().clone()
    optimizer.step()
    assert not torch.equal(pair[0] - at_once, at_once - 1)


def is_moved_once(ulps: Tensor) -> bool:
    """Whether entries were moved once each: of 64 entries that are moved twice, some are beyond 15 ulps."""
    return bool((ulps != 0).any()) and int(ulps.abs().max()) <= 15


def test_groups_tied_and_frozen_parameters() -> None:
    tied = nn.Linear(8, 8, bias=False)
    model = nn.Sequential(tied, nn.Tanh(), tied, nn.Linear(8, 8))
    model[3].bias.requires_grad_(False)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    groups = [{"params": [tied.weight]}, {"params": [model[3].weight], "lr": 0.0}, {"params": [model[3].bias]}]
    with perturb(torch.optim.SGD(groups, lr=0.0), "ulps"):
        ulps = {name: ulps_between(p, before[name]) for name, p in model.named_parameters()}
    assert {name: is_moved_once(u) for name, u in ulps.items()} == {"0.weight": True, "3.weight": True, "3.bias": False}
    assert (ulps["3.bias"] == 0).all()
    # A group that names a parameter twice moves it once, and new groups are perturbed from the next step on.
    p, late = nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(64))
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = torch.optim.SGD([p, p], lr=0.0)
    with perturb(optimizer, "ulps"):
        assert is_moved_once(ulps_between(p, torch.ones(64)))
        optimizer.add_param_group({"params": [late]})
        optimizer.step()
        assert is_moved_once(ulps_between(late, torch.ones(64)))


def test_a_graph_that_is_alive_survives_the_perturbation() -> None:
    model = network()
    loss = model(torch.ones(2, 3)).square().mean()
    perturb(torch.optim.SGD(model.parameters(), lr=0.1), "ulps")
    loss.backward()


class Subclass(torch.optim.SGD):
    """Its step, which has hooks, calls that of SGD, which has hooks as well."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Wrapper(Optimizer):
    """An optimizer that is one itself, around another one with the same parameters."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


def test_nested_steps_move_entries_once() -> None:
    p = nn.Parameter(torch.ones(256))
    p.grad = torch.zeros(256)
    torch.optim.SGD([p], lr=0.0)
    subclass = Subclass([p], lr=0.0)
    inner = torch.optim.SGD([p], lr=0.0)
    wrapper = Wrapper(inner)
    for optimizers in ([subclass], [inner, wrapper]):
        perturbations = [perturb(optimizer, "ulps", seed=1) for optimizer in optimizers]
        outer, before = optimizers[-1], p.detach().clone()
        outer.step()
        assert is_moved_once(ulps_between(p, before))
        assert [perturbation.steps for perturbation in perturbations] == [0] * (len(optimizers) - 1) + [1]
        for perturbation in perturbations:
            perturbation.remove()
    # The wrapper alone is not perturbed: then the step within it is.
    with perturb(inner, "ulps") as perturbation:
        wrapper.step()
        assert perturbation.steps == 1


def test_an_exception_within_a_step_leaves_the_next_one_perturbed() -> None:
    p = nn.Parameter(torch.ones(256))
    optimizer = torch.optim.SGD([p], lr=0.0)

    def fails() -> float:
        raise KeyError("batch")

    with perturb(optimizer, "ulps") as perturbation:
        with pytest.raises(KeyError):
            optimizer.step(fails)
        optimizer.step()
        assert perturbation.steps == 1


def test_parameters_without_numbers_of_their_own() -> None:
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (3,), check_invariants=True).requires_grad_()
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2)), sparse], lr=0.1)
    with pytest.raises(ValueError, match=r'optimizer: found a parameter of type torch.sparse_coo, expected plain tensors'):
        perturb(optimizer, "ulps")
    # Nothing was registered.
    assert not optimizer._optimizer_step_post_hooks
    with perturb(torch.optim.SGD([nn.Parameter(torch.ones(2, device="meta"))], lr=0.1), "ulps"):
        pass
    empty = nn.Parameter(torch.empty(0, 3))
    with perturb(torch.optim.SGD([empty], lr=0.1), "ulps"):
        pass


def test_a_compiled_step_is_perturbed() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    with perturb(optimizer, "ulps") as perturbation:
        before = fingerprint(model)
        torch.compile(optimizer.step, backend="eager")()
        assert perturbation.steps == 1
        assert fingerprint(model) != before


RANK = '''
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.fsdp import fully_shard
from lastbit.torch import perturb

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
ones = torch.ones(65, 7)
found = {"plain": torch.nn.Parameter(ones.clone())}
for name, placement in [("sharded", Shard(0)), ("columns", Shard(1)), ("copied", Replicate())]:
    found[name] = torch.nn.Parameter(distribute_tensor(ones, mesh, [placement]))
optimizer = torch.optim.SGD(list(found.values()), lr=0.0)
perturb(optimizer, "ulps", seed=1)
model = torch.nn.Linear(8, 8)
with torch.no_grad():
    model.weight.fill_(1), model.bias.fill_(1)
fully_shard(model, mesh=mesh)
inner = torch.optim.SGD(model.parameters(), lr=0.0)
with perturb(inner, "ulps", seed=1) as perturbation:
    model(torch.ones(1, 8)).sum().backward()
    inner.step()
    assert perturbation.steps == 1
found["fsdp"] = model.weight
full = {name: p.full_tensor() if isinstance(p, DTensor) else p for name, p in found.items()}
local = {name: p.to_local() if isinstance(p, DTensor) else p for name, p in found.items()}
torch.save([{k: v.detach() for k, v in d.items()} for d in (full, local)], f"{folder}/{rank}.pt")
dist.destroy_process_group()
'''


def test_copies_move_alike_on_all_ranks_and_shards_on_their_own(tmp_path: Path) -> None:
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    (full, local), (full_1, local_1) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for name, tensor in full.items():
        assert torch.equal(tensor, full_1[name]), name
        # Two moves of the sharded model: at registration, and after its step.
        ulps = ulps_between(tensor, torch.ones_like(tensor))
        assert (ulps != 0).any() and int(ulps.abs().max()) <= (30 if name == "fsdp" else 15), name
    for name in ("sharded", "columns", "fsdp"):
        rows = [tensors[name].flatten()[:28] for tensors in (local, local_1)]
        assert not torch.equal(*rows), name
    assert torch.equal(local["copied"], local_1["copied"])
