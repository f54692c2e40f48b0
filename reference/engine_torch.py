"""Loss, gradient, Hessian-vector product and batch statistics of networks in PyTorch, in f64.

    python reference/engine_torch.py    # writes crates/lastbit/tests/golden/engine.json

Weights, direction v, inputs and targets come from `formulas.py`, networks from `networks_torch.py`.
Losses, means over the N examples of the batch:

    cross-entropy    mean of  ln sum_j exp(o_j) - o_class
    bce              mean of  ln(1 + exp(o)) - y o,  one logit o, y = the class, 0 or 1
    half-mse         1/(2N) sum over examples and outputs of (o - y)^2

For each case, in training mode: the loss; for each parameter tensor the norms of weights, gradient
and H v (by double backward) and the three probes of the last two; the norms of the running
statistics after this one forward pass; then the loss in evaluation mode. A bias in front of a batch
norm has no influence on the loss: such tensors are marked `vanishes`, and their numbers are rounding.

Before anything is written, H v is compared with forward-over-reverse differentiation, and loss,
gradient and H v with the same on the examples in reverse order, stored channels last. The second is
equal in exact arithmetic, so the largest difference, relative to the norm of its tensor, shows what
another order of summation does; it is written as `rounding`.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import formulas
from networks_torch import build, complete, without_running_statistics

GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "lastbit" / "tests" / "golden"

RELU, TANH, SIGMOID = ({"name": name} for name in ("relu", "tanh", "sigmoid"))


def swish(beta):
    return {"name": "swish", "beta": beta}


def case(name, batch, loss, **network):
    return {"name": name, "network": complete(network), "batch": batch, "loss": loss}


CASES = [
    case("resnet8", 8, "cross-entropy", net="resnet", depth=8),
    case("resnet20", 8, "cross-entropy", net="resnet", depth=20),
    case("resnet20-plain-swish", 8, "cross-entropy", net="resnet", depth=20, shortcut="plain",
         act=swish(1.0)),
    # One channel, neither square nor a multiple of 4 in its third stage.
    case("resnet8-one-channel", 6, "cross-entropy", net="resnet", depth=8, input=[28, 22, 1], outputs=7),
    case("vgg11-bn", 8, "cross-entropy", net="vgg", depth=11, width=16),
    case("vgg13", 7, "cross-entropy", net="vgg", depth=13, width=8, batch_norm=False),
    case("cnn-5x5-valid-max-tanh", 10, "cross-entropy", net="cnn", channels=[6, 10], kernel=5,
         padding="valid", act=TANH, input=[28, 28, 1]),
    case("cnn-3x3-stride-2-norm-sigmoid", 7, "cross-entropy", net="cnn", channels=[8, 12], stride=2,
         act=SIGMOID, pool="none", batch_norm=True, bias=False, head="global-linear",
         input=[12, 11, 3], outputs=5),
    # The first pooling drops the last row of 11 x 10, the second nothing of 4 x 4.
    case("cnn-2x2-valid-avg-swish-mean", 13, "bce", net="cnn", channels=[5, 7], kernel=2, padding="valid",
         act=swish(1.3), pool="avg", head="mean", input=[12, 11, 3], outputs=1),
    case("cnn-4x4-valid-stride-2-relu", 9, "half-mse", net="cnn", channels=[6], kernel=4, padding="valid",
         stride=2, pool="none", batch_norm=True, input=[12, 10, 3], outputs=3),
    case("cnn-5x5-same-max-relu-norm", 11, "cross-entropy", net="cnn", channels=[7, 9], kernel=5, pool="max",
         batch_norm=True, bias=False, input=[9, 12, 2]),
    case("cnn-three-layers-of-one-channel", 16, "bce", net="cnn", channels=[1, 1, 1], act=swish(1.0),
         pool="none", bias=False, head="mean", input=[12, 12, 1], outputs=1),
    case("mlp-tanh", 12, "cross-entropy", net="mlp", hidden=[20, 20], act=TANH, input=[4, 4, 3]),
    case("mlp-relu", 9, "cross-entropy", net="mlp", hidden=[24], act=RELU, input=[1, 1, 30], outputs=5),
    case("mlp-swish-regression", 6, "half-mse", net="mlp", hidden=[12, 12], act=swish(0.8),
         input=[1, 1, 16], outputs=3),
    case("mlp-sigmoid-bce", 11, "bce", net="mlp", hidden=[8], act=SIGMOID, input=[1, 1, 10], outputs=1),
]  # fmt: skip


# --- problems by formula ------------------------------------------------------------------------


def is_norm(module):
    return isinstance(module, torch.nn.BatchNorm2d)


def norm_weights(network):
    return {f"{name}.weight" for name, module in network.named_modules() if is_norm(module)}


def network_by_formula(description):
    """In f64 and training mode, as a module makes itself."""
    network = build(description).double().train()
    norms = norm_weights(network)
    with torch.no_grad():
        for t, (name, parameter) in enumerate(network.named_parameters()):
            parameter.copy_(torch.from_numpy(formulas.weight(t, tuple(parameter.shape), name in norms)))
    return network


def vanishing(network):
    """Names of biases that a batch norm subtracts again."""
    children = [(name, module) for name, module in network.named_modules() if not list(module.children())]
    convolutions = [(name, module) for (name, module), (_, after) in zip(children, children[1:])
                    if isinstance(module, torch.nn.Conv2d) and is_norm(after)]  # fmt: skip
    return {f"{name}.bias" for name, module in convolutions if module.bias is not None}


def data_by_formula(description, batch, loss):
    height, width, channels = description["input"]
    x = torch.from_numpy(formulas.inputs(batch, height, width, channels))
    outputs = description["outputs"]
    if loss == "half-mse":
        y = torch.from_numpy(formulas.targets(batch, outputs))
    else:
        y = torch.from_numpy(formulas.classes_of(batch, 2 if loss == "bce" else outputs))
    return x, y


def loss_of(kind, outputs, y):
    if kind == "cross-entropy":
        return F.cross_entropy(outputs, y)
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    assert kind == "half-mse"
    return ((outputs - y) ** 2).sum() / (2 * len(y))


# --- derivatives --------------------------------------------------------------------------------


def directions(network):
    shapes = [tuple(p.shape) for p in network.parameters()]
    return [torch.from_numpy(formulas.direction(t, shape)) for t, shape in enumerate(shapes)]


def loss_gradient_product(network, kind, x, y):
    """With one forward pass, so that running statistics move once."""
    parameters = list(network.parameters())
    loss = loss_of(kind, network(x), y)
    gradient = torch.autograd.grad(loss, parameters, create_graph=True)
    along = sum((g * v).sum() for g, v in zip(gradient, directions(network)))
    # A tensor whose gradient does not depend on theta has a product of zero.
    product = torch.autograd.grad(along, parameters, allow_unused=True, materialize_grads=True)
    return loss.item(), [g.detach() for g in gradient], product


def product_forward_over_reverse(network, kind, x, y):
    """The same H v as the derivative of the gradient along v."""
    names, parameters = zip(*network.named_parameters())

    def loss(theta):
        return loss_of(kind, torch.func.functional_call(network, dict(zip(names, theta)), x), y)

    theta = tuple(p.detach() for p in parameters)
    return torch.func.jvp(torch.func.grad(loss), (theta,), (tuple(directions(network)),))[1]


def worst_gap(a, b, names, skipped):
    """Largest |a - b|/|a| of a tensor."""
    gaps = [((x - y).norm() / x.norm()).item() for n, x, y in zip(names, a, b) if n not in skipped]
    return float(np.max(gaps))


def checked(description, kind, x, y, reference, skipped):
    """Compares with two other ways and returns what the second differs by."""
    loss, gradient, product = reference
    names = [name for name, _ in network_by_formula(description).named_parameters()]
    forgetful = without_running_statistics(network_by_formula(description))
    forward = product_forward_over_reverse(forgetful, kind, x, y)
    other_way = worst_gap(product, forward, names, skipped)
    backwards = x.flip(0).contiguous(memory_format=torch.channels_last), y.flip(0)
    other = loss_gradient_product(network_by_formula(description), kind, *backwards)
    rounding = {
        "loss": abs(loss - other[0]) / loss,
        "gradient": worst_gap(gradient, other[1], names, skipped),
        "hessian_vector": worst_gap(product, other[2], names, skipped),
    }
    # Equal but for rounding: of sums of up to 10^4 terms, some 100 u, magnified by each of up to 20
    # layers; seen are 300 u. NaN fails too.
    assert all(gap < 1e-12 for gap in [other_way, *rounding.values()]), (other_way, rounding)
    return rounding, other_way


# --- golden file --------------------------------------------------------------------------------


def norm(x):
    return x.norm().item()


def summary(t, x):
    return {"norm": norm(x), "probes": formulas.probes(t, x.numpy())}


def run(settings):
    description, kind = settings["network"], settings["loss"]
    network = network_by_formula(description)
    skipped = vanishing(network)
    x, y = data_by_formula(description, settings["batch"], kind)
    loss, gradient, product = reference = loss_gradient_product(network, kind, x, y)
    rounding, other_way = checked(description, kind, x, y, reference, skipped)
    parameters = [
        {"name": name, "shape": list(p.shape), "vanishes": name in skipped, "norm": norm(p),
         "gradient": summary(t, gradient[t]), "hessian_vector": summary(t, product[t])}
        for t, (name, p) in enumerate(network.named_parameters())
    ]  # fmt: skip
    buffers = [
        {"name": name, "norm": norm(b)} for name, b in network.named_buffers() if b.is_floating_point()
    ]
    with torch.no_grad():
        evaluation = loss_of(kind, network.eval()(x), y).item()
    print(f"{settings['name']}: loss {loss:.6f}, {sum(p.numel() for p in network.parameters())} parameters; "
          f"H v by the other way to {other_way:.1e}, another order {rounding}")  # fmt: skip
    return settings | {"input_norm": norm(x), "loss_value": loss, "evaluation_loss": evaluation,
                       "parameters": parameters, "buffers": buffers, "rounding": rounding}  # fmt: skip


def write(path, content):
    # json writes floats with repr, the shortest decimal that reads back as the same bits.
    path.write_text(json.dumps(content, separators=(", ", ": ")) + "\n")
    print(f"wrote {path.name}, {path.stat().st_size // 1024} KiB")


def main():
    formulas.check()
    draws = [{"seed": s, "stream": t, "counter": c, "uniform": u} for s, t, c, u in formulas.RUST_DRAWS]
    cases = [run(settings) for settings in CASES]
    made_by = f"reference/engine_torch.py, torch {torch.__version__}"
    write(GOLDEN / "engine.json", {"made_by": made_by, "draws": draws, "cases": cases})


if __name__ == "__main__":
    main()
