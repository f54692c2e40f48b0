"""What stands in the way of a second derivative: code that was compiled, and functions with one derivative only."""

import contextlib
import sys
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

#: Names of the nodes that PyTorch puts where a derivative is missing. They raise if they are reached; but a search for the
#: derivative by some parameters passes by those that lead to none of them, and its result would be wrong.
MISSING = ("Error", "DelayedError", "NotImplemented")


def misses_a_derivative(gradients: Iterable[Tensor]) -> bool:
    """Whether the graph of these gradients has a place at which it cannot be differentiated again."""
    waiting = [gradient.grad_fn for gradient in gradients if gradient.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in MISSING:
            return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def is_compiled(module: nn.Module) -> bool:
    """Whether the module or a part of it was compiled by torch.compile or ``Module.compile``."""
    return any(
        hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None for part in module.modules()
    )


@contextlib.contextmanager
def without_compiled_code() -> Iterator[None]:
    """What torch.compile compiled runs as it was written (PyTorch 2.6 or later)."""
    # Nothing is compiled in a process that has not imported the compiler, which takes seconds.
    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        yield
