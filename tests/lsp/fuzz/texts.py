"""Random programs and pieces of them, such as people type and paste."""

from __future__ import annotations

import random

STATEMENTS = [
    "import torch\nfrom torch import nn\n",
    "import torch as t\nimport torch.nn.functional as F\n",
    "x = 1\n",
    '"""A text 🙂\nover lines\n"""\n',
    "# 漢字 comment\n",
    "def helper(a, b=2):\n    return [a, *b]\n",
    "if torch.cuda.is_available():\n    device = 'cuda'\nelse:\n    device = 'cpu'\n",
    "class Plain:\n    def __init__(self):\n        self.k = torch.zeros(3)\n",
    "class Held(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.k = torch.zeros(3)\n\n"
    "    def forward(self, x):\n        return x + self.k\n",
    "class 模型(nn.Module):\n\tdef __init__(self, n):\n\t\tsuper().__init__()\n"
    "\t\tself.é = '🙂'; self.k = torch.randn(n)\n\tdef forward(self, x):\n\t\t'😀'; return x * self.k\n",
    "class Listed(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(3, 3) for _ in range(2)]\n\n"
    "    def forward(self, x):\n        for layer in self.layers:\n            x = layer(x)\n        return x\n",
    "class Early(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(2, 2)\n        super().__init__()\n",
    "class Shared(nn.Module):\n    weight = nn.Parameter(torch.zeros(3))\n    table = torch.ones(3)\n\n"
    "    def forward(self, x):\n        return nn.Linear(3, 3)(x) + self.table\n",
    "class Child(Held):\n    def __init__(self):\n        super().__init__()\n        self.extra = [torch.ones(2)]\n\n"
    "    def forward(self, x):\n        x.cuda()\n        return super().forward(x) + self.extra[0]\n",
    "class Quiet(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.k = torch.zeros(3)  # torchstray: ignore[unregistered-tensor]\n\n"
    "    def forward(self, x):\n        return x + self.k\n",
    "class Scaled(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
    "        self.w = nn.Parameter(torch.randn(n)).to('cuda')\n        self.s = nn.Parameter(torch.ones(n)) * 0.1\n",
    "model = Held()\nmodel(torch.zeros(3).cuda())\n",
    "x = = 1\n",
    "def broken(:\n    pass\n",
    "print('unclosed\n",
]
TOKENS: list[str] = [
    *"()[]{}'\":=,.#\\@ \tabk10",
    *["self.", "torch", "torch.zeros(3)", "nn.Module", "nn.Linear(2, 2)", "import torch\n", "self.k = torch.ones(2)\n"],
    *[
        "class ",
        "def ",
        "return ",
        "    ",
        "        ",
        "pass\n",
        '"""',
        "'''",
        "f'{",
        "}'",
        "lambda x: ",
        "if x:\n",
        "else:\n",
    ],
    *["# torchstray: ignore", "  # torchstray: ignore[unregistered-tensor]", "# torchstray: ignore-file\n"],
]
ODD: list[str] = [
    *["\n", "\r\n", "\r", "\f", "\x0b", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff", "\0"],
    *["é", "漢", "🙂", "👩\u200d🔬", "e\u0301", "\u202e"],
]


def program(choice: random.Random) -> str:
    """A file of some statements, with line ends of one kind, or of several."""
    parts = choice.sample(STATEMENTS, choice.randint(0, 7))
    if choice.random() < 0.8:
        parts.insert(0, STATEMENTS[0])
    text = choice.choice(["", "\n", "\n\n"]).join(parts)
    newline = choice.choice(["\n", "\n", "\n", "\r\n", "\r\n", "\r", None])
    if newline is not None:
        return text.replace("\n", newline)
    return "".join(choice.choice(["\n", "\r\n", "\r"]) if character == "\n" else character for character in text)


def fragment(choice: random.Random) -> str:
    """What is put in by one edit: nothing, a character, a word, or a statement."""
    kind = choice.random()
    if kind < 0.25:
        return ""
    if kind < 0.7:
        return choice.choice(TOKENS)
    if kind < 0.85:
        return choice.choice(ODD)
    return choice.choice(STATEMENTS)
