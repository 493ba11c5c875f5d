"""Two losses in one, weighted by how uncertain each task is; the weights are learnt with the model."""

import torch
from torch import nn


class TwoTaskLoss(nn.Module):
    """The weighted sum of a segmentation loss and a depth loss."""

    def __init__(self) -> None:
        super().__init__()
        self.sigmas = nn.Parameter(torch.rand(2))

    def forward(self, segmentation: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
        losses = torch.stack([segmentation, depth])
        spread = self.sigmas.abs() + 0.2
        return (losses / (2 * spread) + torch.log(spread)).sum()
