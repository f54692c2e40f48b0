"""Flat tensors as the vectors of a Krylov method."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Up to this many parameters the vectors of a float32 model are float64: a full basis takes 1.4 GB then, half more while a search restarts.
FLOAT64_UP_TO = 4_000_000


#: On a CPU torch.dot adds float32 products one after the other: of eleven million it was off by 2e-4, and vectors made
#: orthogonal by it were not. Blocks of this many, added in float64, are off by less than 1e-8 in the same time.
BLOCK = 2**16


def _dot(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype == torch.float64 or x.device.type != "cpu" or x.numel() <= BLOCK:
        return torch.dot(x, y)
    blocks = [torch.dot(a, b) for a, b in zip(torch.split(x, BLOCK), torch.split(y, BLOCK), strict=True)]
    return torch.stack(blocks).sum(dtype=torch.float64)


class TensorSpace:
    """Vectors of ``dimension`` numbers on one device: the operations that the Krylov method of lastbit asks for."""

    def __init__(self, dimension: int, device: torch.device, precision: torch.dtype) -> None:
        self.dimension = dimension
        self.device = device
        small = dimension <= FLOAT64_UP_TO and device.type != "mps"
        self.dtype = torch.float64 if small else precision

    def zeros(self) -> Tensor:
        return torch.zeros(self.dimension, dtype=self.dtype, device=self.device)

    def copy(self, x: Tensor) -> Tensor:
        return x.clone()

    def assign(self, x: Tensor, values: npt.NDArray[np.float64]) -> None:
        x.copy_(torch.from_numpy(values))

    def dot(self, x: Tensor, y: Tensor) -> float:
        return _dot(x, y).item()

    def axpy(self, x: Tensor, a: float, y: Tensor) -> None:
        x.add_(y, alpha=a)

    def divide(self, x: Tensor, divisor: float) -> None:
        x.div_(divisor)

    def project(self, x: Tensor, vectors: Sequence[Tensor]) -> list[float]:
        # One transfer for all products.
        products: list[float] = torch.stack([_dot(v, x) for v in vectors]).tolist() if vectors else []
        return products

    def add_combination(self, x: Tensor, vectors: Sequence[Tensor], y: Sequence[float]) -> None:
        for vector, factor in zip(vectors, y, strict=True):
            x.add_(vector, alpha=factor)
