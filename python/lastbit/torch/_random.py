"""States of random number generators: PyTorch's, and those of Python and numpy that a data set may draw from."""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

RandomStates = list[tuple[torch.device | None, Tensor]]


def random_states(device: torch.device) -> RandomStates:
    """The states of the generators that a model on this device draws from."""
    states: RandomStates = [(None, torch.get_rng_state())]
    if device.type == "cuda":
        states.append((device, torch.cuda.get_rng_state(device)))
    return states


def set_random_states(states: RandomStates) -> None:
    """Put generators back."""
    for device, state in states:
        if device is None:
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


@contextlib.contextmanager
def untouched_generators() -> Iterator[None]:
    """Whatever is drawn inside, the global generators of Python, numpy and PyTorch are afterwards as they were."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    # A process that has not used its GPUs yet does not begin to.
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
