"""Hashes of all bits of a model."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lastbit import _lastbit
from lastbit._result import Result


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
    arrays = [tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy() for tensor in named.values()]
    hashes = dict(zip(named, _lastbit.hash_of_bytes(arrays), strict=True))
    listing = "".join(f"{name}\n{digits}\n" for name, digits in hashes.items())
    (total,) = _lastbit.hash_of_bytes([torch.frombuffer(bytearray(listing.encode() or b"\n"), dtype=torch.uint8).numpy()])
    return Fingerprint(total, hashes)
