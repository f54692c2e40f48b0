"""Small models, losses and batches for the tests of lastbit.torch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module, Any], Tensor]


def double(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in float64 with parameters drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            scale = 1.0 if p.ndim < 2 else (2.0 / p[0].numel()) ** 0.5
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * scale)
    return module


def data(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def labels(n: int, classes: int, seed: int = 2) -> Tensor:
    return torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))


class Recurrent(nn.Module):
    """An LSTM with a readout of its last state."""

    def __init__(self, inputs: int = 2, hidden: int = 3, outputs: int = 2) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.lstm(x)[0][:, -1])


class Tied(nn.Module):
    """An autoencoder whose decoder is the encoder's matrix: one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.decoder = nn.Linear(4, 4)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.encoder(x)))


class Attention(nn.Module):
    """Self-attention by PyTorch's fused function."""

    def __init__(self, width: int = 4, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(n, length, width)[:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def cnn(dropout: float = 0.25) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )


def partly_frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


def gpt2(tokens: int = 17, hidden: int = 32, layers: int = 2) -> nn.Module:
    """GPT-2 with random parameters; input and output embeddings are tied, as by default.

    Its attention has no dropout: that is no layer, so measurements do not switch it off.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=tokens, n_positions=8, n_embd=hidden, n_layer=layers, n_head=2, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


def gpt2_batch(n: int = 3, tokens: int = 17) -> dict[str, Tensor]:
    ids = torch.randint(tokens, (n, 8), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "labels": ids}


def vit(hidden: int = 32, layers: int = 2) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        image_size=8,
        patch_size=4,
        num_channels=3,
        num_labels=3,
    )
    return ViTForImageClassification(config)


def resnet18() -> nn.Module:
    from torchvision.models import resnet18 as build

    torch.manual_seed(0)
    return build(num_classes=3)


def narrow_resnet18(divisor: int) -> nn.Module:
    """ResNet-18 of torchvision with all channels but those of the input divided by a number."""
    model = resnet18()
    torch.manual_seed(0)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Conv2d):
            channels = module.in_channels if name == "conv1" else module.in_channels // divisor
            narrow: nn.Module = nn.Conv2d(
                channels, module.out_channels // divisor, module.kernel_size, module.stride, module.padding, bias=False
            )
        elif isinstance(module, nn.BatchNorm2d):
            narrow = nn.BatchNorm2d(module.num_features // divisor)
        elif isinstance(module, nn.Linear):
            narrow = nn.Linear(module.in_features // divisor, module.out_features)
        else:
            continue
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, narrow)
    return model


def small_resnet() -> nn.Module:
    """A ResNet of four blocks."""
    from torchvision.models.resnet import BasicBlock, ResNet

    torch.manual_seed(0)
    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3)


def own_loss(model: nn.Module, batch: Any) -> Tensor:
    """The loss that a model of transformers computes itself."""
    return model(**batch).loss


def cross_entropy(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def next_token_loss(model: nn.Module, batch: Any) -> Tensor:
    """The loss of a language model, in its precision: transformers' own rounds the logits to float32."""
    logits = model(input_ids=batch["input_ids"]).logits
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())


class Case(NamedTuple):
    """A model, a loss and a batch."""

    model: nn.Module
    loss: Loss
    batch: Any


def _built(model: nn.Module, dtype: torch.dtype, loss: Loss, batch: Any) -> Case:
    """The model and the batch in a precision."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(map(rounded, value))
        return value.to(dtype) if value.is_floating_point() else value

    return Case(model.to(dtype), loss, rounded(batch))


def _skip_without(package: str) -> None:
    # Here, since benchmarks take models from this file where there is no pytest.
    import pytest

    pytest.importorskip(package)


def _resnet18(dtype: torch.dtype) -> Case:
    _skip_without("torchvision")
    return _built(narrow_resnet18(64), dtype, cross_entropy, (data(4, 3, 32, 32), labels(4, 3)))


def _vit(dtype: torch.dtype) -> Case:
    _skip_without("transformers")
    return _built(double(vit(8, 1)), dtype, own_loss, {"pixel_values": data(4, 3, 8, 8), "labels": labels(4, 3)})


def _gpt(dtype: torch.dtype) -> Case:
    _skip_without("transformers")
    return _built(double(gpt2(7, 8, 1)), dtype, next_token_loss, gpt2_batch(3, 7))


#: Models of all kinds, as small as they come, by the precision of their parameters.
ZOO: dict[str, Callable[[torch.dtype], Case]] = {
    "resnet18": _resnet18,
    "vit": _vit,
    "gpt": _gpt,
    "lstm": lambda dtype: _built(double(Recurrent()), dtype, cross_entropy, (data(4, 3, 2), labels(4, 2))),
    "dropout, batch norm": lambda dtype: _built(double(cnn()), dtype, cross_entropy, (data(5, 1, 6, 6), labels(5, 3))),
    "tied": lambda dtype: _built(double(Tied()), dtype, cross_entropy, (data(5, 4), labels(5, 4))),
    "frozen": lambda dtype: _built(double(partly_frozen()), dtype, cross_entropy, (data(6, 3), labels(6, 2))),
    # Whatever precision is asked for.
    "bfloat16": lambda _: _gpt(torch.bfloat16),
    "compiled": lambda dtype: _compiled(_built(double(mlp()), dtype, cross_entropy, (data(6, 3), labels(6, 2)))),
}


def _compiled(case: Case) -> Case:
    compiled: nn.Module = torch.compile(case.model, backend="aot_eager")
    return case._replace(model=compiled)


def without_dropout(model: nn.Module) -> nn.Module:
    """What lastbit does by itself: dropout off, batch norm by the statistics of the batch."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    return model


def dense_hessian(
    model: nn.Module, loss: Callable[[], Tensor], names: list[str] | None = None
) -> npt.NDArray[np.float64]:
    """The Hessian of a loss, row by row, by two passes of autograd; attention without fusion, which has no second one."""
    chosen = [p for name, p in model.named_parameters() if p.requires_grad and (names is None or name in names)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        value = loss()
    gradients = torch.autograd.grad(value, chosen, create_graph=True, allow_unused=True, materialize_grads=True)
    flat = torch.cat([g.reshape(-1) for g in gradients])
    rows = []
    for entry in flat:
        if not entry.requires_grad:
            rows.append(torch.zeros_like(flat))
            continue
        row = torch.autograd.grad(entry, chosen, retain_graph=True, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([r.reshape(-1) for r in row]))
    hessian = torch.stack(rows).detach().numpy()
    return (hessian + hessian.T) / 2


def everything(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, str]:
    """Hashes of all that a measurement must leave as it was: tensors, gradients, modes, optimizer, generators."""
    import hashlib

    def digest(value: Any) -> str:
        if isinstance(value, Tensor):
            raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
            return hashlib.sha256(raw).hexdigest() + str((value.dtype, tuple(value.shape)))
        if isinstance(value, dict):
            return str({key: digest(item) for key, item in value.items()})
        if isinstance(value, (list, tuple)):
            return str([digest(item) for item in value])
        return repr(value)

    found = {f"tensor {name}": digest(t) for name, t in [*model.named_parameters(), *model.named_buffers()] if not t.is_meta}
    found |= {f"gradient {name}": digest(p.grad) for name, p in model.named_parameters()}
    found |= {f"requires_grad {name}": str(p.requires_grad) for name, p in model.named_parameters()}
    found |= {f"mode {name}": str(module.training) for name, module in model.named_modules()}
    found["random"] = digest(torch.get_rng_state())
    found["numpy random"] = digest(torch.from_numpy(np.random.get_state()[1].astype(np.int64)))  # type: ignore[union-attr]
    found["gradients enabled"] = str(torch.is_grad_enabled())
    if optimizer is not None:
        found["optimizer"] = digest(optimizer.state_dict())
    return found
