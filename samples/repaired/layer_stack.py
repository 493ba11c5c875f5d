"""A stack of equal layers in which each step adds what two layers make of its input."""

import torch
from torch import nn


class LayerStack(nn.Module):
    """As many linear layers as `depth` says; each step also uses the layer half as deep."""

    def __init__(self, width: int = 10, depth: int = 10) -> None:
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step, linear in enumerate(self.linears):
            x = self.linears[step // 2](x) + linear(x)
        return x
