"""Tensors made without a device, kept in caches, in files, or on a device that is written out."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked, findings, script

IMPORTS = """\
import functools
import math
from functools import cached_property, lru_cache
from typing import Dict, Optional

import numpy as np
"""

MADE_HERE = [
    pytest.param(
        """
class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.wte = nn.Embedding(10, 4)
        self.wpe = nn.Embedding(10, 4)
        self.block = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    def forward(self, idx, targets=None):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long)  # expect: missing-device
        x = self.wte(idx) + self.wpe(pos)
        for block in self.block:
            x = block(x)
        mask = torch.tril(torch.ones(t, t)).view(1, t, t)  # expect: missing-device
        att = x @ x.transpose(-2, -1)
        att = att.masked_fill(mask == 0, float("-inf"))
        return att
""",
        id="positions and a causal mask",
    ),
    pytest.param(
        """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(3, 3)
        self.logvar = nn.Linear(3, 3)
    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(std.size())  # expect: missing-device
        return mu + eps * std
    def forward(self, x):
        mu, logvar = self.mu(x), self.logvar(x)
        return self.reparameterize(mu, logvar)
    def sample(self, n):
        z = torch.randn(n, 3)  # expect: missing-device
        return self.mu(z)
""",
        id="noise of the size of a deviation",
    ),
    pytest.param(
        """
class Tagger(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.hidden_dim = hidden
        self.lstm = nn.LSTM(3, hidden)
    def init_hidden(self, bs):
        return (torch.zeros(1, bs, self.hidden_dim),  # expect: missing-device
                torch.zeros(1, bs, self.hidden_dim))  # expect: missing-device
    def forward(self, x):
        hidden = self.init_hidden(x.size(1))
        out, hidden = self.lstm(x, hidden)
        return out
""",
        id="a pair of hidden states",
    ),
    pytest.param(
        """
class Hot(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x, labels):
        y = torch.zeros(x.size(0), 10)  # expect: missing-device
        y.scatter_(1, labels.unsqueeze(1), 1)
        return self.fc(x) * y
""",
        id="one-hot by scatter",
    ),
    pytest.param(
        """
class Ortho(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
    def penalty(self):
        return ((self.weight @ self.weight.t() - torch.eye(3)) ** 2).sum()  # expect: missing-device
    def forward(self, x):
        return x @ self.weight + self.penalty()
""",
        id="an identity beside a parameter",
    ),
    pytest.param(
        """
class Warp(nn.Module):
    def forward(self, img, theta):
        rows = torch.linspace(-1, 1, img.size(2))  # expect: missing-device
        columns = torch.linspace(-1, 1, img.size(3))  # expect: missing-device
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).unsqueeze(0)
        return F.grid_sample(img, grid + theta[:, None, None])
""",
        id="a grid from linspace",
    ),
    pytest.param(
        """
class Pad(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 3, 3)
    def forward(self, x):
        x = self.conv(x)
        pad = torch.zeros(x.shape[0], x.shape[1], 2)  # expect: missing-device
        return torch.cat((x, pad), dim=2)
""",
        id="padding for cat",
    ),
    pytest.param(
        """
class Lit(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
    def training_step(self, batch, batch_idx):
        x, y = batch
        out = self.net(x)
        valid = torch.ones(x.size(0), 1)  # expect: missing-device
        return F.binary_cross_entropy_with_logits(out, valid)
""",
        id="targets in a training step",
    ),
    pytest.param(
        """
class Acc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
    def forward(self, x):
        loss = torch.zeros(1)  # expect: missing-device
        for i in range(3):
            loss += self.net(x).mean()
        return loss
""",
        id="a total that is no number",
    ),
    pytest.param(
        """
class NP(nn.Module):
    def forward(self, x):
        idx = np.random.permutation(x.shape[1])
        w = torch.ones(3, device=x.device)
        w2 = torch.FloatTensor(np.linspace(0, 1, x.shape[1]))  # expect: missing-device
        return x * w + x * w2
""",
        id="weights from NumPy",
    ),
    pytest.param(
        """
class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
    def forward(self, x):
        def mask(n):
            return torch.ones(n, n).triu(1).bool()  # expect: missing-device
        s = self.proj(x)
        return s.masked_fill(mask(s.size(1)), 0.0)
""",
        id="a function inside of forward",
    ),
    pytest.param(
        """
class MHA(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(4, 2)
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(0))  # expect: missing-device
        return self.attn(x, x, x, attn_mask=mask)[0]
""",
        id="a mask for attention",
    ),
    pytest.param(
        """
class PE(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
    def forward(self, x):
        pe = torch.zeros(x.size(1), self.d)  # expect: missing-device
        position = torch.arange(0, x.size(1)).unsqueeze(1).float()
        div = torch.exp(torch.arange(0, self.d, 2).float() * -(math.log(10000.0) / self.d))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        return x + pe.unsqueeze(0)
""",
        id="a table that is filled and added",
    ),
    pytest.param(
        """
class Where(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, torch.zeros(x.shape))  # expect: missing-device
""",
        id="both sides of where",
    ),
    pytest.param(
        """
class Dist(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        mean = torch.zeros(3)  # expect: missing-device
        deviation = torch.ones(3)  # expect: missing-device
        p = torch.distributions.Normal(mean, deviation)
        return self.fc(x) + p.sample()
""",
        id="the prior of a distribution",
    ),
    pytest.param(
        """
class Inp(nn.Module):
    def forward(self, x):
        x.add_(torch.ones(x.size(-1)))  # expect: missing-device
        x *= torch.rand(x.size(-1))  # expect: missing-device
        return x
""",
        id="operations in place",
    ),
    pytest.param(
        """
class Len(nn.Module):
    def forward(self, x, lengths):
        m = torch.arange(x.size(1))[None, :] >= lengths[:, None]  # expect: missing-device
        return x.masked_fill(m, 0)
""",
        id="steps compared with lengths",
    ),
    pytest.param(
        """
class B(nn.Module):
    def forward(self, x):
        return F.linear(x, torch.eye(3))  # expect: missing-device
""",
        id="an identity for linear",
    ),
]

RIGHT = [
    pytest.param(
        """
class C1(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(x.size(0), 1)
        mask = mask.to(x)
        return self.fc(x) * mask
""",
        id="moved like the input",
    ),
    pytest.param(
        """
class C2(nn.Module):
    def forward(self, x):
        idx = torch.randperm(x.size(0))
        idx = idx[: x.size(0) // 2]
        x[idx] = 0
        m = torch.rand(x.size(0)) > 0.5
        return x[m]
""",
        id="an index",
    ),
    pytest.param(
        """
class C3(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    @property
    def device(self):
        return next(self.parameters()).device
    def forward(self, x):
        z = torch.zeros(3, device=self.device)
        return self.fc(x) + z
""",
        id="the module's own device",
    ),
    pytest.param(
        """
class C4(nn.Module):
    def forward(self, x):
        scale = torch.tensor(x.size(-1)).sqrt()
        return x / scale + torch.pi * torch.tensor(2.0).log()
""",
        id="numbers without dimensions",
    ),
    pytest.param(
        """
class C5(nn.Module):
    def forward(self, boxes):
        sizes = torch.tensor([[1, 2], [3, 4]])
        out = []
        for h, w in sizes.tolist():
            out.append(boxes[:, :h, :w])
        n = int(torch.ones(3).sum())
        return out, n
""",
        id="sizes",
    ),
    pytest.param(
        """
class C6(nn.Module):
    def forward(self, x, n: int, p: float):
        w = torch.linspace(0, 1, n)
        w = w * p
        w = w.to(x.device, non_blocking=True)
        return x * w
""",
        id="moved before it is used",
    ),
    pytest.param(
        """
class C7(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        aux = torch.zeros(3)
        aux2 = torch.zeros(3)
        return self.fc(x), aux + aux2
""",
        id="nothing meets it",
    ),
    pytest.param(
        """
class C8(nn.Module):
    def forward(self, x):
        u = x.new_tensor([1.0, 2.0])
        v = torch.empty(3).uniform_().type_as(x)
        w = torch.arange(3).type(x.type())
        z = torch.zeros(3, dtype=x.dtype, layout=x.layout, device=x.device)
        return x + u + v + w + z
""",
        id="made like something",
    ),
    pytest.param(
        """
class C9(nn.Module):
    def __init__(self, sampler):
        super().__init__()
        self.sampler = sampler
    def forward(self, x):
        noise = torch.randn(3)
        return x + self.sampler(noise)
""",
        id="an unknown function moves it",
    ),
    pytest.param(
        """
class C10(nn.Module):
    def forward(self, x, h=None):
        if h is None:
            h = self.init(x)
        return x + h
    def init(self, x):
        weight = next(self.parameters())
        return weight.new_zeros(x.size(0), 3)
""",
        id="made like a parameter",
    ),
    pytest.param(
        """
class C11(nn.Module):
    def forward(self, x):
        lengths = torch.full((x.size(0),), x.size(1), dtype=torch.long)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True)
        return packed
""",
        id="lengths",
    ),
    pytest.param(
        """
class C12(nn.Module):
    def forward(self, x):
        cpu = x.detach().cpu()
        hist = torch.histc(cpu) + torch.ones(100)
        print(cpu * torch.ones(3))
        return x, hist
""",
        id="everything on the CPU",
    ),
    pytest.param(
        """
class C13(nn.Module):
    def forward(self, x):
        k = torch.tensor([1.0, 2.0, 1.0])
        k = k[:, None] * k[None, :]
        k = k / k.sum()
        k = k.expand(x.shape[1], 1, 3, 3).to(dtype=x.dtype, device=x.device)
        return F.conv2d(x, k, groups=x.shape[1])
""",
        id="moved at the end of a chain",
    ),
    pytest.param(
        """
class C14(nn.Module):
    def forward(self, x):
        device = x.device
        t = torch.arange(3).to(device)
        s = torch.zeros(3)
        if device.type == "cuda":
            s = s.cuda()
        return x + t + s
""",
        id="moved where CUDA is",
    ),
    pytest.param(
        """
class C15(nn.Module):
    def forward(self, samples, scale):
        total = torch.ones(samples) * scale
        return total
""",
        id="a number that is handed in",
    ),
    pytest.param(
        """
class C16(nn.Module):
    def forward(self, x):
        acc = torch.zeros(x.size(0), 3)
        for i in range(3):
            acc[:, i] = x[:, i].detach().cpu()
        return acc
""",
        id="parts on the CPU",
    ),
    pytest.param(
        """
class C17(nn.Module):
    def forward(self, x):
        stats = torch.zeros(3)
        stats[0] = x.mean()
        self.stats = stats
        return x
""",
        id="kept and not returned",
    ),
    pytest.param(
        """
class C18(nn.Module):
    def forward(self, x):
        return torch.cat([x.cpu(), torch.zeros(x.size(0), 1)], 1)
""",
        id="joined on the CPU",
    ),
    pytest.param(
        """
class C19(nn.Module):
    def forward(self, x):
        y = torch.zeros(x.size(0), 1)
        y, x = y.to(x.device), x
        a, b = (t.to(x.device) for t in (torch.ones(2), torch.zeros(2)))
        lst = [torch.ones(2), torch.zeros(2)]
        lst = [t.to(x.device) for t in lst]
        return x + y + a + b + lst[0]
""",
        id="moved one by one",
    ),
    pytest.param(
        """
class C20(nn.Module):
    def forward(self, x):
        s = torch.tensor([2.0, 3.0])
        lo, hi = s
        return x * s[0] + x * lo + hi * x + x * s.max() + x * s.sum().item()
""",
        id="single numbers of a vector",
    ),
    pytest.param(
        """
def collate(ts):
    return torch.stack(ts) + torch.ones(3)

class Solver:
    def forward(self, x):
        return x + torch.ones(3)
""",
        id="no module",
    ),
    pytest.param(
        """
class C21(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + torch.ones(3)
""",
        id="no module either",
    ),
    pytest.param(
        """
class C22(nn.Module):
    def forward(self, x):
        out = torch.zeros(x.size(0), 3)
        out[0] = x[0]
        return out.to(x.device)
""",
        id="moved before it is returned",
    ),
    pytest.param(
        """
class C23(nn.Module):
    def forward(self, x):
        return x.repeat(torch.tensor([1, 2]).tolist()), x.view(*torch.tensor([1, 3]))
""",
        id="numbers for sizes",
    ),
    pytest.param(
        """
class C24(nn.Module):
    def loss(self, pred, target, weight=None):
        if weight is None:
            weight = torch.ones_like(pred)
        return (pred - target).abs() * weight
""",
        id="made like the prediction",
    ),
    pytest.param(
        """
class C25(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            t = torch.rand(1).item()
        u = float(torch.rand(1))
        if torch.rand(1) < 0.5:
            x = x.flip(-1)
        k = torch.randint(0, 3, (1,))
        return x * t + u + x[..., k] + x.roll(k.item())
""",
        id="drawn numbers",
    ),
]

FILES = """
SOBEL_X = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]).view(1, 1, 3, 3)  # expect: global-tensor
SOBEL_Y = SOBEL_X.transpose(2, 3)  # expect: global-tensor
ANCHORS = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]  # expect: global-tensor
PRIOR = torch.distributions.Normal(torch.zeros(2), torch.ones(2))  # expect: global-tensor
LUT = torch.from_numpy(np.arange(10))  # expect: global-tensor
COUNTS: torch.Tensor = torch.ones(4)  # expect: global-tensor
UNUSED = torch.ones(4)
_CACHE: Dict[int, torch.Tensor] = {}
NP = np.ones(3)
a, b = torch.ones(2), torch.zeros(2)  # expect: global-tensor
if torch.cuda.is_available():
    GPU = torch.ones(3).cuda()
else:
    GPU = torch.ones(3)

class Edges(nn.Module):
    def forward(self, x):
        gx = F.conv2d(x, SOBEL_X)
        gy = F.conv2d(x, weight=SOBEL_Y)
        return gx + gy

class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)
    def forward(self, x):
        y = self.head(x)
        outs = []
        for anchor in ANCHORS:
            outs.append(y * anchor)
        z = y + PRIOR.sample()
        ids = F.embedding(LUT, self.head.weight)
        w = torch.zeros(2, device=x.device) + COUNTS[:2].to(x.device)
        return outs, z, ids, w + a.to(x) * b + GPU

class WL(nn.Module):
    def forward(self, logits, y):
        return F.cross_entropy(logits, y, weight=COUNTS)

@functools.lru_cache(None)
def bands(n):  # expect: global-tensor
    return torch.linspace(0, 1, n)

@lru_cache()
def pair(n):  # expect: global-tensor
    return torch.ones(n), torch.zeros(n)

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bb", bands(4))
    def forward(self, x: torch.Tensor, w: Optional[torch.Tensor] = None, t=torch.ones(3)):  # expect: global-tensor
        p, q = pair(x.size(-1))
        return x * bands(x.size(-1)) + p + t

class N(nn.Module):
    def __init__(self, k=torch.ones(3)):
        super().__init__()
        self.register_buffer("k", k)
    def forward(self, x):
        return x * self.k
"""

STALE = [
    """
class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim)))
        self.seq_len_cached = None
        self.cos_cached = None
        self.sin_cached = None
    def forward(self, x, seq_dim=1):
        seq_len = x.shape[seq_dim]
        if seq_len != self.seq_len_cached:
            self.seq_len_cached = seq_len
            t = torch.arange(x.shape[seq_dim], device=x.device).type_as(self.inv_freq)
            freqs = torch.einsum("i,j->ij", t, self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1).to(x.device)
            self.cos_cached = emb.cos()[:, None, None, :]  # expect: stale-cache
            self.sin_cached = emb.sin()[:, None, None, :]  # expect: stale-cache
        return x * self.cos_cached + x * self.sin_cached
""",
    """
class RotaryOk(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", torch.ones(dim))
        self._n = 0
    def _update(self, x, n):
        if n > self._n or self._cos.device != x.device or self._cos.dtype != x.dtype:
            self._n = n
            self._cos = torch.arange(n, device=x.device).cos()
        return self._cos[:n]
    def forward(self, x):
        return x * self._update(x, x.size(1))
""",
    """
class Pos(nn.Module):
    def __init__(self):
        super().__init__()
        self.pe = None
    def extend_pe(self, x):
        if self.pe is not None:
            if self.pe.size(1) >= x.size(1):
                if self.pe.dtype != x.dtype or self.pe.device != x.device:
                    self.pe = self.pe.to(dtype=x.dtype, device=x.device)
                return
        pe = torch.zeros(x.size(1), 4)
        self.pe = pe.to(device=x.device, dtype=x.dtype)
    def forward(self, x):
        self.extend_pe(x)
        return x + self.pe
""",
    """
class Buf(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None, persistent=False)
    def forward(self, x):
        if self.mask is None or self.mask.shape[0] < x.shape[1]:
            self.mask = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1)
        return x + self.mask
""",
    """
class GetMask(nn.Module):
    def get_mask(self, n, device):
        if self.mask is not None and self.mask.shape[-1] >= n:
            return self.mask[:n, :n]
        mask = torch.ones((n, n), device=device, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        return mask
    def forward(self, x):
        return x.masked_fill(self.get_mask(x.size(1), x.device), 0)
""",
    """
class Stats(nn.Module):
    def __init__(self):
        super().__init__()
        self.initialized = False
        self.count = 0
    def forward(self, x):
        if not self.initialized:
            self.initialized = True
            self.count = x.size(0)
        return x * self.count
""",
    """
class Prop(nn.Module):
    def __init__(self):
        super().__init__()
        self._win = None
    @property
    def win(self):
        if self._win is None:
            self._win = torch.hann_window(4)  # expect: stale-cache
        return self._win
    def forward(self, x):
        return x * self.win
""",
    """
class Prop2(nn.Module):
    def __init__(self):
        super().__init__()
        self._win = None
    def win(self, device):
        if self._win is None:
            self._win = torch.hann_window(4)
        return self._win.to(device)
    def forward(self, x):
        return x * self.win(x.device)
""",
    """
class DictC(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}
    def forward(self, x):
        k = x.shape[-1]
        try:
            m = self.cache[k]
        except KeyError:
            m = self.cache[k] = torch.ones(k, device=x.device)
        key = f"{k}-{x.device}"
        if key not in self.cache:
            self.cache[key] = torch.ones(k, device=x.device)
        return x * m * self.cache[key]
""",
    """
class HasAttr(nn.Module):
    def forward(self, x):
        if getattr(self, "grid", None) is None:
            self.grid = torch.arange(x.size(-1), device=x.device)  # expect: stale-cache
        return x + self.grid
""",
    """
class CP(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.ones(3))
    @cached_property
    def w2(self):  # expect: stale-cache
        return self.w.exp()
    @cached_property
    def bb(self):  # expect: stale-cache
        return self.b
    @cached_property
    def dev(self):
        return self.w.device
    @cached_property
    def shape(self):
        return self.w.shape
    def forward(self, x):
        return x * self.w2 + self.bb.sum()
""",
    """
class Tracker(nn.Module):
    def __init__(self, match):
        super().__init__()
        self.match = match
        self.previous = None
        self.source = None
    def next(self, x):
        found = self.match(x)
        self.previous = x + found
        self.source = (self.previous, 3)
        return found + self.source[0]
    def forward(self, x):
        if self.previous is not None:
            return self.next(x)
        self.previous = x
        return x
""",
]

HARD_CODED = [
    """
class H1(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3).cuda())  # expect: hard-coded-device
        self.m = nn.Linear(3, 3).to("cuda")  # expect: hard-coded-device
    def noise(self, x):
        return torch.randn(x.shape, device="cuda")  # expect: hard-coded-device
    def forward(self, x):
        return self.m(x) * self.w + self.noise(x)
""",
    """
class H2(nn.Module):
    def __init__(self, use_cuda=True):
        super().__init__()
        self.use_cuda = use_cuda
    def forward(self, x):
        h = torch.zeros(x.size(0), 3)
        if self.use_cuda:
            h = h.cuda()
        return x + h
""",
    """
class H3(nn.Module):
    def forward(self, x):
        dev = "cuda" if x.is_cuda else "cpu"
        return x + torch.zeros(3, device=dev) + torch.zeros(3).to(dev)
""",
    """
class H4(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = torch.zeros(3).cuda()  # expect: unregistered-tensor
    def forward(self, x):
        return x + self.t
""",
    """
class H5(nn.Module):
    def forward(self, x):
        l = nn.Linear(3, 3).cuda()  # expect: layer-in-forward
        return l(x)
""",
    """
class H6(nn.Module):
    def forward(self, batch):
        img = batch["image"].cuda()  # expect: hard-coded-device
        return img
""",
    """
class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
    def step(self, x):
        return self.model(x.cuda())
""",
]


def program(code: str) -> str:
    return IMPORTS + script(code)


@pytest.mark.parametrize("code", MADE_HERE)
def test_what_meets_the_module_is_found(code: str) -> None:
    assert_marked(program(code))


@pytest.mark.parametrize("code", RIGHT)
def test_what_cannot_fail_is_not(code: str) -> None:
    assert findings(program(code)) == []


def test_tensors_of_the_file() -> None:
    assert_marked(program(FILES))


@pytest.mark.parametrize("code", STALE)
def test_caches(code: str) -> None:
    assert_marked(program(code))


@pytest.mark.parametrize("code", HARD_CODED)
def test_written_devices(code: str) -> None:
    assert_marked(program(code))
