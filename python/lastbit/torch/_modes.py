"""Modes of PyTorch that a caller may be in, and that a measurement must not be in."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def with_gradients() -> Iterator[None]:
    """Without ``torch.inference_mode`` and ``torch.no_grad``.

    Autocast keeps no rounded copies of parameters meanwhile: within one context of the caller it would use the old ones
    after a step.
    """
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(cached)
