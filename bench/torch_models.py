"""Models that the benchmarks of lastbit.torch measure: none of them ours, all with random initial weights."""

import torch
from torch import nn


def resnet18(device: str, batch: int = 32):
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10).to(device)
    data = (torch.randn(batch, 3, 64, 64, device=device), torch.randint(0, 10, (batch,), device=device))
    return model, nn.CrossEntropyLoss(), data


class Gpt(nn.Module):
    """A small GPT of PyTorch's own encoder layers with a causal mask."""

    def __init__(self, tokens: int = 1000, width: int = 256, depth: int = 4, length: int = 128) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, ids):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        return self.head(self.blocks(x, mask=self.mask, is_causal=True)).flatten(0, 1)


def gpt(device: str, batch: int = 8):
    torch.manual_seed(0)
    model = Gpt().to(device)
    ids = torch.randint(0, 1000, (batch, 129), device=device)
    return model, nn.CrossEntropyLoss(), (ids[:, :-1], ids[:, 1:].flatten())


def mlp(device: str, batch: int = 256):
    torch.manual_seed(0)
    layers = [nn.Linear(784, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 10)]
    model = nn.Sequential(*layers).to(device)
    data = (torch.randn(batch, 784, device=device), torch.randint(0, 10, (batch,), device=device))
    return model, nn.CrossEntropyLoss(), data


MODELS = {"mlp": mlp, "gpt": gpt, "resnet18": resnet18}
