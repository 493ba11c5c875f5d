"""Smoothing of a signal: a convolution with a fixed, bell-shaped kernel."""

import torch
from torch import nn
from torch.nn import functional


class Smoothing(nn.Module):
    """A weighted average of `k` neighbours; nothing in it is learnt."""

    def __init__(self, k: int = 9) -> None:
        super().__init__()
        self.k = torch.hann_window(k)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        kernel = self.k / self.k.sum()
        return functional.conv1d(signal, kernel.view(1, 1, -1), padding="same")
