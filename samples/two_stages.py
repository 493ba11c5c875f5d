"""An image network of two stages; the first hands its channels to the second."""

import torch
from torch import nn


class FirstStage(nn.Module):
    """From colour to eight channels, and on through the second stage."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        channels = self.relu(self.conv(image))
        second_stage = SecondStage()
        return second_stage(channels)


class SecondStage(nn.Module):
    """From eight channels to sixteen."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels=8, out_channels=16, kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        return self.relu(self.conv(channels))
