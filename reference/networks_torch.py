"""The networks of lastbit as plain torch.nn modules, with the parameter names lastbit writes.

`build(description)` makes one from the dictionary that the golden files hold:

    {"net": "resnet", "depth", "shortcut": "conv" | "plain", "act", "norm", "input", "outputs"}
    {"net": "residual", "widths", "blocks", and the rest as for "resnet"}
    {"net": "vgg", "depth": 11 | 13 | 16 | 19, "width", "batch_norm", "input", "outputs"}
    {"net": "cnn", "channels", "kernel", "padding": "same" | "valid", "stride", "act",
     "pool": "max" | "avg" | "none", "batch_norm", "bias",
     "head": "linear" | "global-linear" | "mean", "input", "outputs"}
    {"net": "mlp", "hidden", "act", "input", "outputs"}

`input` is [height, width, channels] and `act` {"name": "relu" | "tanh" | "sigmoid"} or
{"name": "swish", "beta"}. "same" pads (kernel - 1)/2 zeros on every side, whatever the stride.
Poolings are 2 x 2 with stride 2 and drop a last odd row or column. Batch norm: eps 1e-5,
momentum 0.1, running variance unbiased.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Swish(nn.Module):
    """x sigmoid(beta x)."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, x):
        return x * torch.sigmoid(self.beta * x)


def activation(act):
    simple = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
    return Swish(act["beta"]) if act["name"] == "swish" else simple[act["name"]]()


# --- residual networks --------------------------------------------------------------------------


class PlainShortcut(nn.Module):
    """Every second pixel, and channels of zeros before and behind (option A of He et al. 2016)."""

    def __init__(self, planes):
        super().__init__()
        self.each_side = planes // 4

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.each_side, self.each_side))


class Block(nn.Module):
    """act(F(x) + shortcut(x)), F = conv, norm, act, conv, norm."""

    def __init__(self, in_planes, planes, stride, shortcut, act, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = norm(planes)
        self.act = activation(act)
        if stride == 1 and in_planes == planes:
            self.shortcut = nn.Identity()
        elif shortcut == "conv":
            projection = nn.Conv2d(in_planes, planes, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, norm(planes))
        else:
            assert shortcut == "plain" and planes == 2 * in_planes and stride == 2
            self.shortcut = PlainShortcut(planes)

    def forward(self, x):
        out = self.act(self.bn1(self.conv1(x)))
        return self.act(self.bn2(self.conv2(out)) + self.shortcut(x))


class Residual(nn.Module):
    """A stage of blocks for each width, each but the first at half the resolution."""

    def __init__(self, widths, blocks, shortcut, act, norm, input, outputs):
        super().__init__()
        # Without batch norm the layers keep their names and have no parameters.
        norm = nn.BatchNorm2d if norm else nn.Identity
        self.conv1 = nn.Conv2d(input[2], widths[0], 3, 1, 1, bias=False)
        self.bn1 = norm(widths[0])
        self.act = activation(act)
        self.stages = len(widths)
        for stage, planes in enumerate(widths):
            in_planes, stride = (planes, 1) if stage == 0 else (widths[stage - 1], 2)
            first = Block(in_planes, planes, stride, shortcut, act, norm)
            others = [Block(planes, planes, 1, shortcut, act, norm) for _ in range(blocks - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, *others))
        self.linear = nn.Linear(widths[-1], outputs)

    def forward(self, x):
        x = self.act(self.bn1(self.conv1(x)))
        for stage in range(1, self.stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        return self.linear(x.mean((2, 3)))


class ResNet(Residual):
    """The CIFAR form of He et al. 2016: depth 6n + 2, three stages of 16, 32, 64 channels."""

    def __init__(self, depth, **rest):
        assert depth % 6 == 2, f"depth {depth} is not 6n + 2"
        super().__init__([16, 32, 64], (depth - 2) // 6, **rest)


# --- VGG, convolutional, fully connected --------------------------------------------------------

# Channels in units of the width; each row of a plan ends with a pooling.
VGG_PLANS = {
    11: [[1], [2], [4, 4], [8, 8], [8, 8]],
    13: [[1, 1], [2, 2], [4, 4], [8, 8], [8, 8]],
    16: [[1, 1], [2, 2], [4, 4, 4], [8, 8, 8], [8, 8, 8]],
    19: [[1, 1], [2, 2], [4, 4, 4, 4], [8, 8, 8, 8], [8, 8, 8, 8]],
}


class Vgg(nn.Module):
    """The CIFAR form: convolutions, then one linear layer."""

    def __init__(self, depth, width, batch_norm, input, outputs):
        super().__init__()
        height, columns, channels = input
        layers = []
        for row in VGG_PLANS[depth]:
            for factor in row:
                layers.append(nn.Conv2d(channels, factor * width, 3, padding=1))
                channels = factor * width
                if batch_norm:
                    layers.append(nn.BatchNorm2d(channels))
                layers.append(nn.ReLU())
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels * (height // 32) * (columns // 32), outputs)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Cnn(nn.Module):
    """Layers of convolution, batch norm if any, activation, pooling if any; then a head."""

    def __init__(self, channels, kernel, padding, stride, act, pool, batch_norm, bias, head, input, outputs):
        super().__init__()
        assert padding == "valid" or kernel % 2 == 1, f"an even kernel ({kernel}) cannot keep the size"
        pad = (kernel - 1) // 2 if padding == "same" else 0
        height, columns, before = input
        self.layers = len(channels)
        for layer, after in enumerate(channels, 1):
            setattr(self, f"conv{layer}", nn.Conv2d(before, after, kernel, stride, pad, bias=bias))
            setattr(self, f"bn{layer}", nn.BatchNorm2d(after) if batch_norm else nn.Identity())
            before = after
            halves = 1 if pool == "none" else 2
            height, columns = (((n + 2 * pad - kernel) // stride + 1) // halves for n in (height, columns))
        self.act = activation(act)
        self.pool = {"max": nn.MaxPool2d(2), "avg": nn.AvgPool2d(2), "none": nn.Identity()}[pool]
        self.head = head
        if head == "mean":
            assert outputs == 1, "the mean over everything is one logit"
        else:
            positions = height * columns if head == "linear" else 1
            self.fc = nn.Linear(before * positions, outputs)

    def forward(self, x):
        for layer in range(1, self.layers + 1):
            x = getattr(self, f"bn{layer}")(getattr(self, f"conv{layer}")(x))
            x = self.pool(self.act(x))
        if self.head == "mean":
            return x.mean((1, 2, 3))[:, None]
        return self.fc(x.flatten(1) if self.head == "linear" else x.mean((2, 3)))


class Mlp(nn.Module):
    """Images are flattened as channel, row, column."""

    def __init__(self, hidden, act, input, outputs):
        super().__init__()
        widths = [input[0] * input[1] * input[2], *hidden, outputs]
        self.layers = len(widths) - 1
        for layer in range(1, self.layers + 1):
            setattr(self, f"fc{layer}", nn.Linear(widths[layer - 1], widths[layer]))
        self.act = activation(act)

    def forward(self, x):
        x = x.flatten(1)
        for layer in range(1, self.layers):
            x = self.act(getattr(self, f"fc{layer}")(x))
        return getattr(self, f"fc{self.layers}")(x)


# --- from a description -------------------------------------------------------------------------

RELU = {"name": "relu"}
DEFAULTS = {
    **dict.fromkeys(
        ("resnet", "residual"),
        {"shortcut": "conv", "act": RELU, "norm": True, "input": [32, 32, 3], "outputs": 10},
    ),
    "vgg": {"width": 64, "batch_norm": True, "input": [32, 32, 3], "outputs": 10},
    "cnn": {"kernel": 3, "padding": "same", "stride": 1, "act": RELU, "pool": "max", "batch_norm": False,
            "bias": True, "head": "linear", "outputs": 10},
    "mlp": {"act": RELU, "outputs": 10},
}  # fmt: skip
MODULES = {"resnet": ResNet, "residual": Residual, "vgg": Vgg, "cnn": Cnn, "mlp": Mlp}


def complete(description):
    """The description with every setting in it."""
    return {"net": description["net"]} | DEFAULTS[description["net"]] | description


def build(description):
    settings = complete(description)
    return MODULES[settings.pop("net")](**settings)


def without_running_statistics(network):
    """The same loss in training mode, of which a forward pass leaves no trace."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return network


MLP = {"net": "mlp", "input": [32, 32, 3]}
NAMED = {
    "cnn": {"net": "cnn", "channels": [8, 16], "input": [28, 28, 1]},
    "mlp2": MLP | {"hidden": [200] * 2},
    "mlp4": MLP | {"hidden": [200] * 4, "act": {"name": "tanh"}},
    "mlp1000": MLP | {"hidden": [1000] * 4},
    "resnet18": {"net": "residual", "widths": [64, 128, 256, 512], "blocks": 2},
    "vgg11-narrow": {"net": "vgg", "depth": 11, "width": 16},
}


def named(name):
    """A description from a name: one of NAMED, or resnet20, resnet56-swish, resnet20-plain, vgg16-bn, vgg11."""
    if name in NAMED:
        return NAMED[name]
    kind, *options = name.split("-")
    family = kind.rstrip("0123456789")
    description = {"net": family, "depth": int(kind.removeprefix(family))}
    if family == "vgg":
        return description | {"batch_norm": "bn" in options}
    act = {"name": "swish", "beta": 1.0} if "swish" in options else RELU
    return description | {"shortcut": "plain" if "plain" in options else "conv", "act": act}
