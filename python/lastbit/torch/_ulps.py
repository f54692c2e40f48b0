"""Every entry of a parameter moves by a few ulps, up or down, or stays: what other roundings everywhere do to it.

A move is the difference of two whole numbers drawn from 0 to 15: at most 15 ulps, with a standard deviation of 6.5. That
is what it takes to be as far off as another implementation: convolutions without oneDNN, or on two threads, changed the
activations of a small ResNet (whose batch norm adds 32,768 terms) by 54 to 66 units of 2^-24, moves of one ulp by 6 to 8.
In 16 and 8 bits kernels add in higher precision and round once: there a move is the difference of two draws of 0 and 1.

The bits of a floating-point number without its sign, read as an integer, are its magnitude in ulps, so a move is added to
these bits, in every precision. Zeros stay zero, since a weight that was pruned to zero must not come back as a subnormal
number. Numbers from which a move could lead to zero or to infinity stay as well, and so do infinities and NaN.
"""

import sys

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake

from lastbit import _lastbit

#: Bits of each of the two numbers whose difference is a move, by the size of an entry in bytes.
BITS = {1: 1, 2: 1, 4: 4, 8: 4}

#: Entries that move together. A block and its temporaries stay in the cache of a CPU, where PyTorch gives each thread 2^15
#: entries at least; elsewhere the temporaries of an embedding do not fill the memory. Multiples of the 32 entries of a draw
#: of one bit.
ENTRIES_OF_A_THREAD = 2**16
ENTRIES_ELSEWHERE = 2**24

#: The integer whose size is that of a floating-point number.
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

#: Of the streams of random numbers of a seed. "ulp" has 0 and 1, seeds of further optimizers have 3.
STREAM = 2


def check(p: Tensor) -> None:
    """The entries of the parameter must lie in memory as numbers of a precision."""
    if exists(p) and not _is_sharded(p) and (type(p.data) is not Tensor or p.layout != torch.strided):
        kind = type(p.data).__name__ if type(p.data) is not Tensor else str(p.layout)
        raise ValueError(
            f'optimizer: found a parameter of type {kind}, expected plain tensors or DTensors for "ulps"; "ulp" moves one '
            "entry of one parameter at each step"
        )


def exists(p: Tensor) -> bool:
    """Whether the parameter has entries: a lazy one has no shape yet, one on the device ``meta`` or a fake one no values."""
    return not (nn.parameter.is_lazy(p) or p.is_meta or is_fake(p))


@torch.no_grad()
def move_entries(p: Tensor, seed: int, step: int, index: int) -> None:
    """Each entry moves by the difference of two draws.

    The draws are a function of the seed, the step, the index of the parameter and its shape alone: all ranks of a
    data-parallel job make the same ones. The shards of a ``DTensor`` have draws of their own, its copies the same.
    """
    # Not detach(): a graph that is alive does not take this for a change of what it saved. It is one of rounding.
    data, shard = _local(p.data)
    if data.numel() == 0:
        return
    generator = torch.Generator(data.device)
    generator.manual_seed(_lastbit.below(_lastbit.below(seed, STREAM, step, 2**63), shard, index, 2**63))
    entries = torch.view_as_real(data) if data.is_complex() else data
    integer = INTEGERS[entries.element_size()]
    largest = int(torch.tensor(torch.finfo(entries.dtype).max, dtype=entries.dtype).view(integer).item())
    bits = BITS[entries.element_size()]
    moves = _moves_by_byte(bits, data.device)
    for block in _blocks(entries.view(integer)):
        _move(block, bits, largest, moves, generator)


def _move(entries: Tensor, bits: int, largest: int, moves_by_byte: Tensor, generator: torch.Generator) -> None:
    # 64 random bits are the draws of so many entries.
    at_once = 64 // (2 * bits)
    draws = torch.empty(-(-entries.numel() // at_once), dtype=torch.int64, device=entries.device)
    draws.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    moves = moves_by_byte.index_select(0, draws.view(torch.uint8).int()).view(torch.int8)[: entries.numel()]
    magnitude = entries & torch.iinfo(entries.dtype).max
    farthest = 2**bits - 1
    # 1 for the entries that may move, else 0. Three times as fast on a CPU as comparisons.
    may = torch.minimum(magnitude - farthest, largest - farthest + 1 - magnitude).clamp_(0, 1)
    entries += may.mul_(moves.view(entries.shape))


def _moves_by_byte(bits: int, device: torch.device) -> Tensor:
    """The moves that a random byte stands for, one in each byte of an integer: differences of numbers of so many bits."""
    places = torch.arange(0, 8, 2 * bits, device=device)
    pairs = torch.arange(256, device=device).unsqueeze(1) >> places
    number = 2**bits - 1
    moves: Tensor = ((pairs & number) - (pairs >> bits & number)).to(torch.int8)
    return moves.view(INTEGERS[len(places)]).squeeze(1)


def _blocks(bits: Tensor) -> tuple[Tensor, ...]:
    entries = ENTRIES_OF_A_THREAD * torch.get_num_threads() if bits.device.type == "cpu" else ENTRIES_ELSEWHERE
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        if bits.numel() > entries and bits.is_contiguous(memory_format=layout):
            return torch.split(bits.as_strided((bits.numel(),), (1,), bits.storage_offset()), entries)
    return (bits,)


def _is_sharded(p: Tensor) -> bool:
    # A DTensor exists only where this module was imported, which takes long.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(p, module.DTensor)


def _local(data: Tensor) -> tuple[Tensor, int]:
    """What this rank has of a tensor, and which of its shards that is."""
    if not _is_sharded(data):
        return data, 0
    # mypy knows no DTensor without its import.
    sharded: object = data
    shard = 0
    for dimension, placement in enumerate(sharded.placements):  # type: ignore[attr-defined]
        if placement.is_partial():
            raise ValueError('optimizer: found a parameter of partial sums, expected shards or copies for "ulps"')
        if placement.is_shard():
            mesh = sharded.device_mesh  # type: ignore[attr-defined]
            shard = shard * mesh.size(dimension) + mesh.get_local_rank(dimension)
    return sharded.to_local(), shard  # type: ignore[attr-defined]
