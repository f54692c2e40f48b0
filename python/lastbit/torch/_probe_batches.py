"""The batches on which a probe measures, taken so that the training sees the same random numbers and examples."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from lastbit.torch._problem import Batch
from lastbit.torch._random import untouched_generators

#: Batches that are taken from a loader.
OF_LOADER = {"cheap": 1, "full": 4}
#: Examples of a batch where the loader does not say.
EXAMPLES = 32


def probe_batches(batches: Batch | Iterable[Batch], preset: str) -> list[Batch]:
    """A list of batches: of a batch or of some; of a loader a few."""
    with untouched_generators():
        if isinstance(batches, DataLoader):
            return of_loader(batches, OF_LOADER[preset])
        is_one = isinstance(batches, (tuple, dict, Tensor)) or hasattr(batches, "items") or not isinstance(batches, Iterable)
        return [batches] if is_one else list(batches)


def of_loader(loader: Any, count: int) -> list[Batch]:
    """So many batches of examples that are spread evenly over the data set of a loader.

    The examples are read from the data set by their index and put together by the loader's ``collate_fn``. The loader itself
    is not touched: an iterator of it would draw from the random numbers of the training.
    """
    data = loader.dataset
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise ValueError(
            f"batches: found a loader of a {type(data).__name__}, whose examples have no index, expected batches: reading some "
            "of its examples would take them from the training; pass batches=[batch]"
        )
    if len(data) == 0:
        raise ValueError("batches: found a loader without examples, expected at least one")
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:
        # The entries of the data set are batches.
        return [loader.collate_fn(data[i]) for i in _spread(count, len(data))]
    size = getattr(loader, "batch_size", None) or getattr(sampler, "batch_size", None) or EXAMPLES
    chosen = [data[i] for i in _spread(count * size, len(data))]
    parts = -(-len(chosen) // size)
    # Each batch is spread over the whole data set.
    return [loader.collate_fn(chosen[i::parts]) for i in range(parts)]


def _spread(count: int, length: int) -> list[int]:
    n = min(count, length)
    return [i * length // n for i in range(n)]
