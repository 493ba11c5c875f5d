"""How a server starts and ends, and what it survives."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

import torchstray
from tests.cli.conftest import environment
from tests.lsp.conftest import COMMAND, Launch
from tests.lsp.documents import AWKWARD, AWKWARD_FINDINGS, long_program, program
from tests.lsp.editor import PATIENCE, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

FOUND = [("unregistered-tensor", "self.k")]


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def message(**members: object) -> bytes:
    return framed(json.dumps({"jsonrpc": "2.0", **members}).encode())


INITIALIZE = message(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
SHUTDOWN = message(id=2, method="shutdown")
EXIT = message(method="exit")


async def end_of(data: bytes, folder: Path, *arguments: str) -> tuple[int, bytes, bytes]:
    """Send these bytes to a server and close the pipe; return its exit status, output and errors."""
    server = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=environment(),
    )
    try:
        out, err = await asyncio.wait_for(server.communicate(data), PATIENCE)
    finally:
        if server.returncode is None:
            server.kill()
    assert server.returncode is not None
    return server.returncode, out, err


async def test_it_says_what_it_is(vscode: Editor) -> None:
    assert vscode.server is not None
    assert vscode.server.server_info == types.ServerInfo("torchstray", torchstray.__version__)


@pytest.mark.parametrize("arguments", [[], ["--stdio"]])
async def test_an_orderly_end(tmp_path: Path, arguments: list[str]) -> None:
    status, out, err = await end_of(INITIALIZE + SHUTDOWN + EXIT, tmp_path, *arguments)
    assert (status, err) == (0, b"")
    assert out.startswith(b"Content-Length: ")


async def test_an_exit_without_goodbye(tmp_path: Path) -> None:
    status, _, err = await end_of(INITIALIZE + EXIT, tmp_path)
    assert (status, err) == (1, b"")


@pytest.mark.parametrize(
    "data",
    [b"", INITIALIZE, INITIALIZE + SHUTDOWN, INITIALIZE + EXIT[:-5], b"Content-Length: 100\r\n"],
    ids=["before a word", "after hello", "after goodbye", "within a message", "within a header"],
)
async def test_it_ends_with_its_editor(tmp_path: Path, data: bytes) -> None:
    """An editor that dies closes the pipe."""
    status, _, _ = await end_of(data, tmp_path)
    assert status in (0, 1)


async def test_a_request_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """An editor would wait for its answer for ever."""
    request = message(id=41, method="textDocument/hover", params={"x": 1})
    _, out, _ = await end_of(INITIALIZE + request + SHUTDOWN + EXIT, tmp_path)
    assert re.search(rb'"error": \{[^}]*\}[^}]*"id": 41\b', out)


async def test_a_message_longer_than_the_memory_ends_it_with_a_word(tmp_path: Path) -> None:
    status, _, err = await end_of(INITIALIZE + b"Content-Length: 99999999999999\r\n\r\n{}", tmp_path)
    assert status == 1
    assert b"longer than the memory" in err
    assert b"Traceback" not in err


async def test_it_ends_with_its_editor_in_the_midst_of_work(launch: Launch, tmp_path: Path) -> None:
    editor = await launch("vscode")
    await editor.greet(tmp_path)
    editor.open(tmp_path / "model.py", long_program(100))
    editor.hang_up()
    await editor.ended()
    assert "Traceback" not in "\n".join(editor.complaints)


GARBAGE = {
    "no JSON": framed(b"{no json"),
    "no object": framed(b"[1, 2]"),
    "a number": framed(b"7"),
    "null": framed(b"null"),
    "not UTF-8": framed(b"\xff\xfe"),
    "no version": framed(b'{"id": 7, "method": "textDocument/hover"}'),
    "headers without sense": b"Hello: there\r\nContent-Type: x\r\n" + message(method="$/none"),
    "a number that is none": b"Content-Length: none\r\n\r\n",
    "an answer to no question": message(id=99, result=None),
    "an error to no question": message(id=98, error={"code": 1, "message": "x"}),
    "an unknown notification": message(method="torchstray/unknown", params={"a": 1}),
    "a request without its parameters": message(id=97, method="textDocument/hover"),
    "a request with wrong parameters": message(id=96, method="textDocument/hover", params={"textDocument": 1}),
    "a change without its parameters": message(method="textDocument/didChange", params={}),
    "an opening without a text": message(
        method="textDocument/didOpen", params={"textDocument": {"uri": "file:///a.py"}}
    ),
    "a place that is none": message(
        id=95,
        method="textDocument/hover",
        params={"textDocument": {"uri": "file:///model.py"}, "position": {"line": -1, "character": -7}},
    ),
    "an empty URI": message(
        method="textDocument/didOpen",
        params={"textDocument": {"uri": "", "languageId": "python", "version": 1, "text": "import torch"}},
    ),
    "a cancelled request that never was": message(method="$/cancelRequest", params={"id": 1234}),
}


async def test_garbage_does_not_end_it(launch: Launch, tmp_path: Path) -> None:
    """After each piece it still answers."""
    editor = await launch("emacs")
    await editor.greet(tmp_path)
    for number, (name, data) in enumerate(GARBAGE.items()):
        editor.send_bytes(data)
        buffer = editor.open(tmp_path / f"model{number}.py", program("k"))
        await editor.look(buffer)
        assert editor.findings(buffer) == FOUND, name
    assert await editor.leave() == 0


async def test_an_editor_that_says_nothing_of_itself(launch: Launch, tmp_path: Path) -> None:
    """As the protocol has it: UTF-16, published diagnostics, no more than the basics."""
    editor = await launch("emacs")
    await editor.greet(tmp_path, capabilities=types.ClientCapabilities())
    assert editor.encoding == types.PositionEncodingKind.Utf16
    for name in ("diagnostic_provider", "code_action_provider"):
        assert editor.can(name) is None
    buffer = editor.open(tmp_path / "model.py", AWKWARD)
    await editor.look(buffer)
    assert editor.findings(buffer) == AWKWARD_FINDINGS
    for shown in buffer.shown:
        assert (shown.related_information, shown.code_description, shown.tags) == (None, None, None)
    assert editor.registrations == {}


async def test_a_long_analysis_does_not_keep_others_waiting(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", long_program(60))
    long = asyncio.ensure_future(vscode.look(buffer))
    await asyncio.sleep(0)  # so that it is sent
    with pytest.raises(JsonRpcException):
        await vscode.request("torchstray/unknown", {})
    assert not long.done()
    assert len(await long) == 60
    await _refusal_logged(vscode)


async def test_an_unknown_request_is_refused_by_name(vscode: Editor) -> None:
    with pytest.raises(JsonRpcException) as refused:
        await vscode.request("torchstray/unknown", {})
    assert refused.value.code == types.ErrorCodes.MethodNotFound
    await _refusal_logged(vscode)


async def test_a_cancelled_request_is_answered_as_such(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", long_program(60))
    params = types.DocumentDiagnosticParams(buffer.identifier)
    request = asyncio.ensure_future(vscode.request(types.TEXT_DOCUMENT_DIAGNOSTIC, params, "to be cancelled"))
    await asyncio.sleep(0)  # so that it is sent
    vscode.cancel_request(types.CancelParams("to be cancelled"))
    with pytest.raises(JsonRpcException) as refused:
        await request
    assert refused.value.code == types.LSPErrorCodes.RequestCancelled
    assert len(await vscode.look(buffer)) == 60


async def _refusal_logged(editor: Editor) -> None:
    """Wait until the log has an unknown request, which is somebody's mistake."""
    await editor.until(lambda: "torchstray/unknown" in "".join(editor.complaints), "word of the unknown request")
    editor.complaints.clear()
