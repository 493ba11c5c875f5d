"""Documents for the tests, and what torchstray makes of them on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import environment

IMPORTS = "import torch\nfrom torch import nn\n"

AWKWARD = (
    "# 🔥 模型, written on Windows\n"
    "import torch\n"
    "from torch import nn\n"
    "\n"
    "\n"
    "class 模型(nn.Module):\n"
    "\t'''🙂🙂 漢字'''\n"
    "\tdef __init__(self, size):\n"
    "\t\tsuper().__init__()\n"
    "\t\tself.名 = '😀é漢'; self.маска = torch.zeros(3)  # 😀 漢字\n"
    "\t\tself.層 = [nn.Dropout(0.5)]; self.r = torch.randn(3)\n"
    "\n"
    "\tdef forward(self, x):\n"
    "\t\t'😀'; x = x + self.маска + self.r\n"
    "\t\tx.cuda()\n"
    "\t\treturn self.層[0](x)\n"
).replace("\n", "\r\n")
"""Emoji, CJK, tabs and CRLF before, in and after what is found; three findings with a safe repair, one without."""

AWKWARD_FINDINGS = [
    ("unregistered-tensor", "self.маска"),
    ("unregistered-module", "self.層"),
    ("unregistered-tensor", "self.r"),
    ("discarded-move", "x.cuda()"),
]


def model(*attributes: str, name: str = "Net") -> str:
    """A module class that holds and uses a plain tensor in each of these attributes."""
    build = "".join(f"        self.{attribute} = torch.zeros(3)\n" for attribute in attributes)
    uses = "".join(f" + self.{attribute}" for attribute in attributes)
    return (
        f"\n\nclass {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n{build}\n"
        f"    def forward(self, x):\n        return x{uses}\n"
    )


def program(*attributes: str, name: str = "Net") -> str:
    """A whole file with such a class."""
    return IMPORTS + model(*attributes, name=name)


def long_program(classes: int) -> str:
    """A file with so many classes that hold one plain tensor each."""
    return IMPORTS + "".join(model("k", name=f"Net{number}") for number in range(classes))


def _run(text: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `torchstray check` on a text that stands in no file."""
    command = [sys.executable, "-m", "torchstray", "check", "-", "--isolated", *arguments]
    return subprocess.run(
        command, input=text.encode(), capture_output=True, cwd=folder, env=environment(), timeout=120, check=False
    )


def repaired(text: str, folder: Path) -> str:
    """Return what `torchstray check --fix` makes of a text; `folder` is where it runs."""
    done = _run(text, folder, "--fix")
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode()


def checked(text: str, folder: Path) -> list[tuple[str, str, str]]:
    """Return what `torchstray check` finds: code, severity and message of each finding, hints too."""
    done = _run(text, folder, "--output-format", "json", "--min-severity", "hint")
    assert done.returncode in (0, 1), done.stderr
    return [(one["code"], one["severity"], one["message"]) for one in json.loads(done.stdout)]
