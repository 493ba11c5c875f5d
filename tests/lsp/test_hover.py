"""What there is to read about a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.lsp.documents import AWKWARD, IMPORTS
from tests.lsp.editor import Buffer, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

NET = (
    IMPORTS
    + """

class Net(nn.Module):  # 🙂
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.zeros(3))
        self.register_buffer("scale", torch.ones(3))
        self.k = torch.zeros(3)

    def forward(self, x):
        return self.layer(x) * self.weight * self.scale + self.k
"""
)


async def read(editor: Editor, buffer: Buffer, offset: int) -> str:
    """Return what is said at an offset, in the markup that the editor reads."""
    assert editor.can("hover_provider")
    hover = await editor.hover(buffer, offset)
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.kind == (editor.profile.can("text_document.hover.content_format") or [])[0]
    assert hover.range is not None
    assert buffer.text.find(editor.marked(buffer, hover.range)) <= offset
    return hover.contents.value


async def test_a_finding_is_explained(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    for attribute, rule in (("self.маска", "unregistered-tensor"), ("self.層", "unregistered-module")):
        assert rule in await read(editor, buffer, buffer.after(attribute) - 1)
    hover = await editor.hover(buffer, buffer.after("self.маска") - 1)
    assert hover is not None
    assert hover.range is not None
    assert editor.marked(buffer, hover.range) == "self.маска"


async def test_what_a_class_registers_and_what_not(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", NET)
    text = await read(editor, buffer, buffer.after("class N"))
    for name in ("layer", "weight", "scale", "k"):
        assert name in text
    assert "unregistered-tensor" not in text


async def test_an_attribute_with_a_finding_tells_of_its_class_too(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", NET)
    text = await read(editor, buffer, buffer.after("self.k"))
    assert "unregistered-tensor" in text
    assert "scale" in text


async def test_there_is_nothing_to_say_elsewhere(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", NET)
    for place in ("import tor", "# ", "return "):
        assert await editor.hover(buffer, buffer.after(place)) is None
    notes = editor.open(folder / "notes.py", "class Net:\n    pass\n")
    assert await editor.hover(notes, notes.after("class N")) is None


async def test_what_is_said_is_of_the_newest_text(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", NET)
    assert "unregistered-tensor" in await read(editor, buffer, buffer.after("self.k"))
    editor.replace(buffer, "self.k = torch.zeros(3)", "self.k = 3")
    assert await editor.hover(buffer, buffer.after("self.k")) is None
