"""Checkpoints exchanged with PyTorch, both ways, as safetensors.

    python reference/weights_torch.py read NET FILE                # a file that lastbit wrote
    python reference/weights_torch.py write NET FILE [f32 | f64]   # one for lastbit to read

NET is a name such as resnet20, resnet20-plain, resnet56-swish, vgg16-bn, or the JSON of a
description as in `networks_torch.py`. `read` loads strictly: a missing, additional or misshapen
tensor ends it with exit code 1, and so do mixed precisions. `write` takes the weights of
`formulas.py` and moves the running statistics once, so that they are not those of a fresh network.
Both print the losses (cross-entropy) on the first 8 examples of `formulas.py`, in the precision of
the file, in training and in evaluation mode: what lastbit must find with the same weights.
"""

import copy
import json
import sys

import torch
from safetensors.torch import load_file, save_file

from engine_torch import data_by_formula, loss_of, network_by_formula
from networks_torch import build, complete, named

BATCH, LOSS = 8, "cross-entropy"
PRECISIONS = {"f32": torch.float32, "f64": torch.float64}


def description_of(text):
    return complete(json.loads(text) if text.startswith("{") else named(text))


def print_losses(network, description):
    dtype = next(network.parameters()).dtype
    x, y = data_by_formula(description, BATCH, LOSS)
    with torch.no_grad():
        # A copy: a forward pass in training mode would move the running statistics.
        for mode in (True, False):
            loss = loss_of(LOSS, copy.deepcopy(network).train(mode)(x.to(dtype)), y).item()
            print(f"{'training' if mode else 'evaluation'} loss {loss!r}")


def read(description, path):
    tensors = load_file(path)
    precisions = {x.dtype for x in tensors.values() if x.is_floating_point()}
    if len(precisions) != 1:
        sys.exit(f"{path}: expected one precision, found {sorted(map(str, precisions))}")
    network = build(description).to(precisions.pop())
    try:
        network.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        sys.exit(f"{path}: {error}")
    print(f"{path}: {len(tensors)} tensors, {sum(p.numel() for p in network.parameters())} parameters")
    print_losses(network, description)


def write(description, path, precision="f64"):
    network = network_by_formula(description)
    with torch.no_grad():
        network(data_by_formula(description, BATCH, LOSS)[0])
    network.to(PRECISIONS[precision])
    save_file(network.state_dict(), path)
    print(f"wrote {path}")
    print_losses(network, description)


if __name__ == "__main__":
    modes = {"read": (read, [4]), "write": (write, [4, 5])}
    mode, counts = modes.get(sys.argv[1] if len(sys.argv) > 1 else None, (None, []))
    if len(sys.argv) not in counts or len(sys.argv) == 5 and sys.argv[4] not in PRECISIONS:
        sys.exit("usage: python reference/weights_torch.py read NET FILE | write NET FILE [f32 | f64]")
    mode(description_of(sys.argv[2]), *sys.argv[3:])
