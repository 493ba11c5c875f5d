"""Makes PyTorch files such as people write: blocks, encoders, losses, a training loop; some with mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator

HEADER = '''"""Experiment {seed}: models, losses and the training loop."""

import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


'''

BLOCK = '''class {name}(nn.Module):
    """A residual block with an optional change of width."""

    def __init__(self, width: int, out: Optional[int] = None, drop: float = 0.{digit}) -> None:
        super().__init__()
        out = out or width
        self.conv1 = nn.Conv2d(width, out, {kernel}, padding={kernel} // 2, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, {kernel}, padding={kernel} // 2, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.drop = nn.Dropout(drop)
        self.short = nn.Identity() if width == out else nn.Conv2d(width, out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.drop(self.norm2(self.conv2(y)))
        return F.relu(y + self.short(x))


'''

ATTENTION = '''class {name}(nn.Module):
    """Attention over positions up to `limit`."""

    def __init__(self, width: int = {width}, heads: int = {kernel}, limit: int = 512):
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(width // heads)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        position = torch.arange(limit).unsqueeze(1)
        steps = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(limit, width)
        table[:, 0::2] = torch.sin(position * steps)
        table[:, 1::2] = torch.cos(position * steps)
        {table}
        {mask}

    def forward(self, x, lengths=None):
        batch, length, width = x.shape
        x = x + self.table[:length]
        query, key, value = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        score = query @ key.transpose(-2, -1) * self.scale
        score = score.masked_fill(self.mask[:length, :length], float("-inf"))
        if lengths is not None:
            keep = torch.arange(length, device=x.device)[None] < lengths[:, None]
            score = score.masked_fill(~keep[:, None, None], float("-inf"))
        return (score.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)


'''

ENCODER = """class {name}(nn.Module):
    def __init__(self, vocabulary, width={width}, depth={kernel}, classes=10):
        super({name}, self).__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        {layers}
        self.head = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, width * 2),
            nn.GELU(),
            nn.Dropout(0.{digit}),
            nn.Linear(width * 2, classes),
        )
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.embedding(tokens)
        hidden = {{}}
        for number, layer in enumerate(self.layers):
            x = layer(x) if number % 2 else F.relu(layer(x)) + x
            hidden[f"layer{{number}}"] = x
        return self.head(x.mean(dim=1)), hidden


"""

LOSS = '''class {name}(nn.Module):
    """Weighs the classes, and smooths the targets."""

    def __init__(self, weights, smoothing=0.{digit}, gamma={kernel}.0):
        super().__init__()
        self.smoothing = smoothing
        self.gamma = gamma
        {weights}

    def forward(self, logits, target):
        logs = F.log_softmax(logits, dim=-1)
        smooth = -logs.mean(dim=-1)
        picked = F.nll_loss(logs, target, weight=self.weights, reduction="none")
        focal = (1 - torch.exp(-picked)) ** self.gamma
        loss = (1 - self.smoothing) * focal * picked + self.smoothing * smooth
        if not torch.isfinite(loss).all():
            raise ValueError(f"loss is not finite for {{target.shape[0]}} samples")
        return loss.mean()


'''

LOOP = """@dataclass
class {name}:
    epochs: int = {kernel}
    rate: float = 1e-{digit}
    width: int = {width}
    device: str = "cuda"


def train_{number}(model, loader, validation, settings: {name}):
    device = torch.device(settings.device if torch.cuda.is_available() else "cpu")
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)
    best, history = float("inf"), []
    for epoch in range(settings.epochs):
        model.train()
        total = 0.0
        for inputs, target in loader:
            inputs, target = inputs.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs)[0], target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * inputs.size(0)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x.to(device))[0].argmax(-1) == y.to(device)).sum().item() for x, y in validation)
        history.append({{"epoch": epoch, "loss": total, "right": right}})
        if total < best:
            best = total
            torch.save(model.state_dict(), f"best-{number}.pt")
    return history


"""

TEMPLATES = {"Block": BLOCK, "Attention": ATTENTION, "Encoder": ENCODER, "Loss": LOSS, "Settings": LOOP}

CHOICES = {
    "table": ('self.register_buffer("table", table, persistent=False)', "self.table = table"),
    "mask": (
        'self.register_buffer("mask", torch.triu(torch.ones(limit, limit, dtype=torch.bool), 1), persistent=False)',
        "self.mask = torch.triu(torch.ones(limit, limit, dtype=torch.bool), diagonal=1)",
    ),
    "layers": (
        "self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])",
        "self.layers = [nn.Linear(width, width) for _ in range(depth)]",
    ),
    "weights": (
        'self.register_buffer("weights", torch.tensor(weights))',
        "self.weights = torch.tensor(weights)",
    ),
}
"""The right way and the mistake."""

MISTAKEN = 0.3
"""How much of what can be wrong is wrong."""


def realistic_file(lines: int, seed: int) -> str:
    """Return a file of exactly `lines` lines, made of whole classes and functions and closed with comments."""
    text = HEADER.format(seed=seed)
    for piece in _pieces(random.Random(seed)):
        if (text + piece).count("\n") > lines:
            break
        text += piece
    return text + "# The end.\n" * (lines - text.count("\n"))


def _pieces(chance: random.Random) -> Iterator[str]:
    number = 0
    while True:
        for kind, template in TEMPLATES.items():
            number += 1
            choices = {key: wrong if chance.random() < MISTAKEN else right for key, (right, wrong) in CHOICES.items()}
            yield template.format(
                name=f"{kind}{number}",
                number=number,
                width=chance.choice([64, 128, 256]),
                kernel=chance.choice([3, 5, 7]),
                digit=chance.randint(1, 5),
                **choices,
            )
