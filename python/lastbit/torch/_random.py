"""States of PyTorch's random number generators."""

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
