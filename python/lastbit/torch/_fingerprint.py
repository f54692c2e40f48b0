"""Hashes of all bits of a model."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lastbit import _lastbit
from lastbit._result import Result
from lastbit.torch._problem import check_shapes


@dataclass(frozen=True)
class Fingerprint(Result):
    """Hashes of tensors: equal for bit-identical tensors, whatever device they are on.

    Attributes
    ----------
    total
        Hash of the names and hashes of all tensors.
    tensors
        Hash of each tensor by name: BLAKE3 of its bits, the first 32 digits, as ``lastbit diff`` prints it.
    """

    total: str
    tensors: dict[str, str]

    def __str__(self) -> str:
        return f"{self.total} ({len(self.tensors)} tensors)"

    def differing(self, other: "Fingerprint") -> list[str]:
        """Return the names of the tensors that differ, or that only one of the two has.

        Parameters
        ----------
        other
            The fingerprint of another model, or of this one at another time.

        Returns
        -------
        list of str
            The names, in the order of the model; empty if all bits are the same.
        """
        names = list(dict.fromkeys([*self.tensors, *other.tensors]))
        return [name for name in names if self.tensors.get(name) != other.tensors.get(name)]


@torch.no_grad()
def fingerprint(model: nn.Module | Mapping[str, Tensor]) -> Fingerprint:
    """Hash all bits of a model's parameters and buffers, tensor by tensor.

    Parameters
    ----------
    model
        A module, or tensors by name (a ``state_dict``, gradients). The names of a compiled module are those of its
        original. Bits alone are hashed: a tensor and its reshaped copy have the same hash.

    Returns
    -------
    Fingerprint
        A hash of everything, and one of each tensor.

    Examples
    --------
    >>> import torch, lastbit.torch
    >>> model = torch.nn.Linear(2, 2)
    >>> before = lastbit.torch.fingerprint(model)
    >>> with torch.no_grad():
    ...     _ = model.bias[0].nextafter_(torch.tensor(1e9))
    >>> lastbit.torch.fingerprint(model).differing(before)
    ['bias']
    """
    if not isinstance(model, (nn.Module, Mapping)):
        raise TypeError(f"model: found {type(model).__name__}, expected a torch.nn.Module or tensors by name")
    tensors = getattr(model, "_orig_mod", model).state_dict() if isinstance(model, nn.Module) else model
    named = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
    check_shapes(named.items())
    hashes = dict(zip(named, _lastbit.hash_of_bytes(_bytes(list(named.values()))), strict=True))
    listing = "".join(f"{name}\n{digits}\n" for name, digits in hashes.items())
    (total,) = _lastbit.hash_of_bytes([torch.frombuffer(bytearray(listing.encode() or b"\n"), dtype=torch.uint8).numpy()])
    return Fingerprint(total, hashes)


def _bytes(tensors: list[Tensor]) -> list[npt.NDArray[np.uint8]]:
    """The bytes of each tensor, without regard to strides; one copy for all tensors of a GPU."""
    flat = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    by_device: dict[torch.device, list[int]] = {}
    for i, one in enumerate(flat):
        by_device.setdefault(one.device, []).append(i)
    arrays: list[npt.NDArray[np.uint8]] = [np.empty(0, dtype=np.uint8)] * len(flat)
    for device, places in by_device.items():
        own = [flat[i] for i in places]
        if device.type != "cpu":
            own = list(torch.split(_copied(torch.cat(own)), [one.numel() for one in own]))
        for i, one in zip(places, own, strict=True):
            arrays[i] = one.numpy()
    return arrays


class _Buffers(threading.local):
    """Of each device, for this thread alone: another one may be hashing the bytes in its own."""

    def __init__(self) -> None:
        self.of: dict[torch.device, Tensor] = {}


_pinned = _Buffers()


def _copied(joined: Tensor) -> Tensor:
    """A copy in the computer's memory, into a buffer that stays there: new pinned memory costs more than the copy."""
    if joined.device.type != "cuda":
        return joined.cpu()
    buffer = _pinned.of.get(joined.device)
    if buffer is None or buffer.numel() < joined.numel():
        buffer = _pinned.of[joined.device] = torch.empty(joined.numel(), dtype=torch.uint8, pin_memory=True)
    return buffer[: joined.numel()].copy_(joined)
