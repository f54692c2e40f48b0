"""Sharpness and edge ratio of a torchvision ResNet-18 in ten lines."""

import torch
import torchvision

import lastbit.torch

model = torchvision.models.resnet18(num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
batch = (torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,)))
print(lastbit.torch.sharpness(model, torch.nn.CrossEntropyLoss(), batch, optimizer=optimizer))
