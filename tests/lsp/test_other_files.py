"""What other files say of the one that is open."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.lsp.documents import IMPORTS
from tests.lsp.editor import Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

BASE = (
    IMPORTS
    + """

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        {statement}
"""
)
MODEL = """import torch
from base import Base


class Net(Base):
    def __init__(self):
        super().__init__()
        self.k = torch.zeros(3)

    def forward(self, x):
        return x + self.k
"""


async def test_a_base_class_in_another_file_is_read_and_read_again(editor: Editor, folder: Path) -> None:
    base = folder / "base.py"
    base.write_text(BASE.format(statement='self.register_buffer("k", torch.ones(3))'), encoding="utf-8")
    buffer = editor.open(folder / "model.py", MODEL)
    await editor.settle(buffer, [])
    draft = folder / "draft"
    draft.write_text(BASE.format(statement="self.n = 3"), encoding="utf-8")
    draft.replace(base)
    if not editor.tell(base, types.FileChangeType.Changed):
        editor.change(buffer, (0, 0, "# typed\n"))
    await editor.settle(buffer, [("unregistered-tensor", "self.k")])
