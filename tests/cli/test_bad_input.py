"""Input that no checker likes: each has a clear message and the right exit status, and nothing is lost."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import MODEL, REPAIRED, Run, environment


def _lines(done_stdout: str) -> list[str]:
    return done_stdout.splitlines()[:-1]


def test_a_file_that_does_not_parse_is_checked_where_it_does(torchstray_: Run, tmp_path: Path) -> None:
    text = MODEL + "\n\ndef broken(:\n    return 1\n"
    (tmp_path / "model.py").write_text(text)
    done = torchstray_("check", "--output-format", "concise", "--fix")
    (line,) = _lines(done.stdout)
    assert line.startswith("model.py:14:")
    assert " error syntax-error " in line
    assert done.returncode == 1
    assert (tmp_path / "model.py").read_text() == text.replace(MODEL, REPAIRED)


def test_a_file_without_torch_is_not_our_business(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_bytes(b"def broken(:\n\xff")
    done = torchstray_("check")
    assert (done.returncode, done.stdout) == (0, "No problems found in 1 file.\n")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"import torch\nx = '\xff'\n", "is not UTF-8: byte 0xff at offset 18"),
        (b"# coding: klingon\nimport torch\n", "'klingon'"),
        (b"import torch\n\0", "NUL"),
        ("import torch\n".encode("utf-16"), "UTF-16"),
        ("import torch\n".encode("utf-32"), "UTF-32"),
        (b"\0\0\xfe\xff" + "import torch\n".encode("utf-32-be"), "UTF-32"),
    ],
    ids=["not UTF-8", "unknown encoding", "NUL", "UTF-16", "UTF-32", "UTF-32, big end first"],
)
def test_undecodable_bytes_are_a_finding_and_stay(torchstray_: Run, tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "good.py").write_text(MODEL)
    done = torchstray_("check", "--output-format", "concise", "--fix")
    (line,) = _lines(done.stdout)
    assert line.startswith("bad.py:1:1: error unreadable-file This file ")
    assert words in line
    assert done.returncode == 1
    assert (tmp_path / "bad.py").read_bytes() == data
    assert (tmp_path / "good.py").read_text() == REPAIRED
    assert json.loads(torchstray_("check", "--output-format", "json").stdout)[0]["code"] == "unreadable-file"


LATIN = "# -*- coding: latin-1 -*-\n# für ©\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((LATIN + MODEL).encode("latin-1"), (LATIN + REPAIRED).encode("latin-1")),
        (codecs.BOM_UTF8 + MODEL.encode(), codecs.BOM_UTF8 + REPAIRED.encode()),
        (MODEL.replace("\n", "\r\n").encode(), REPAIRED.replace("\n", "\r\n").encode()),
        (MODEL.replace("\n", "\r").encode(), REPAIRED.replace("\n", "\r").encode()),
        (MODEL.replace("    ", "\t").encode(), REPAIRED.replace("    ", "\t").encode()),
        (MODEL.replace("\n\n\n", "\n\f\n\n").encode(), REPAIRED.replace("\n\n\n", "\n\f\n\n").encode()),
        (MODEL.rstrip().encode(), REPAIRED.rstrip().encode()),
    ],
    ids=["latin-1", "BOM", "CRLF", "CR", "tabs", "form feed", "no last line end"],
)
def test_repair_keeps_encoding_and_line_ends(torchstray_: Run, tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "model.py").write_bytes(before)
    found = json.loads(torchstray_("check", "--output-format", "json").stdout)
    row = 10 if before.startswith(b"#") else 8
    column = 3 if b"\t" in before else 9
    assert [(f["code"], f["location"]) for f in found] == [("unregistered-tensor", {"row": row, "column": column})]
    done = torchstray_("check", "--fix")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "model.py").read_bytes() == after


def test_empty_file(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_bytes(b"")
    done = torchstray_("check", "empty.py", "--fix")
    assert (done.returncode, done.stdout, done.stderr) == (0, "No problems found in 1 file.\n", "")


def test_a_file_of_50000_lines(torchstray_: Run, tmp_path: Path) -> None:
    text = MODEL + "".join(f"\n\ndef f{n}(x):\n    y = x + {n}\n    return [y,\n            y]\n" for n in range(8340))
    assert text.count("\n") > 50_000
    (tmp_path / "long.py").write_text(text)
    done = torchstray_("check", "--output-format", "concise")
    assert [line.split(" `")[0] for line in _lines(done.stdout)] == ["long.py:8:9: error unregistered-tensor"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    "expression",
    ["(" * 5000 + "1" + ")" * 5000, "+".join(["1"] * 20_000), "-" * 20_000 + "1", "x" + ".a" * 20_000],
    ids=["parentheses", "sum", "signs", "attributes"],
)
def test_deeply_nested_expressions(torchstray_: Run, tmp_path: Path, expression: str) -> None:
    (tmp_path / "deep.py").write_text(f"{MODEL}\n\ny = {expression}\n")
    done = torchstray_("check", "--output-format", "concise")
    codes = [line.split()[2] for line in _lines(done.stdout)]
    assert codes[0] == "unregistered-tensor"
    assert set(codes[1:]) <= {"syntax-error"}
    assert done.returncode == 1


def test_a_folder_named_like_a_file(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "x.py").mkdir()
    (tmp_path / "x.py" / "model.py").write_text(MODEL)
    for argument in (".", "x.py"):
        done = torchstray_("check", argument, "--output-format", "concise")
        assert done.stdout.startswith(f"{Path('x.py', 'model.py')}:8:9: error unregistered-tensor")


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_dangling_link(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / ".#model.py").symlink_to("user@host.1234")  # how Emacs locks a file
    for arguments in ((), ("gone.py",)):
        done = torchstray_("check", *arguments, "--output-format", "concise", "--fix")
        (line,) = _lines(done.stdout)
        assert line == (
            "gone.py:1:1: error unreadable-file This file is a symbolic link to nowhere.py, which does not exist."
        )
        assert done.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_link_to_itself(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("check", "--output-format", "concise")
    loop, model = _lines(done.stdout)
    assert loop.startswith("loop.py:1:1: error unreadable-file This file cannot be read: ")
    assert model.startswith("model.py:8:9: error unregistered-tensor ")
    assert (done.returncode, done.stderr) == (1, "")
    for command in ("check", "config"):
        done = torchstray_(command, "loop.py/x.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"Error: {Path('loop.py', 'x.py')} cannot be read: ")


def test_an_encoding_that_cannot_write_ends_one_file_only(torchstray_: Run, tmp_path: Path) -> None:
    data = f"# coding: idna\n{MODEL}".encode()
    (tmp_path / "idna.py").write_bytes(data)
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("check", "--fix", "--output-format", "concise")
    assert done.stderr == "idna.py is written in idna, which cannot write the new text.\n"
    assert done.stdout.startswith("idna.py:9:9: error unregistered-tensor ")
    assert done.returncode == 2
    assert (tmp_path / "idna.py").read_bytes() == data
    assert (tmp_path / "model.py").read_text() == REPAIRED


def test_a_number_that_python_does_not_read(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(f"{MODEL}\n\nx = {'9' * 5000}\n")
    done = torchstray_("check", "--output-format", "concise")
    model, number = _lines(done.stdout)
    assert model.startswith("model.py:8:9: error unregistered-tensor ")
    assert number == "model.py:14:1: error syntax-error a number of more than 4,300 digits"


@pytest.mark.skipif(sys.platform == "win32", reason="no such file names")
def test_file_names_do_not_drive_the_terminal(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m\nb é.py").write_text(MODEL)
    for options in ((), ("--output-format", "concise"), ("--diff",)):
        out = torchstray_("check", *options).stdout
        assert r"a\x1b[31m\nb é.py" in out.splitlines()[0]
        assert "\x1b" not in out


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_in_a_folder_that_may_not_be_entered(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "model.py").write_text(MODEL)
    (tmp_path / "locked").chmod(0)
    for command in ("check", "config"):
        done = torchstray_(command, "locked/model.py")
        assert (done.returncode, done.stderr) == (2, "Error: locked/model.py cannot be read: Permission denied\n")
    (tmp_path / "locked").chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("check model.py >&-", 2, "Error: standard output is closed\n"),
        ("--version >&-", 2, "Error: standard output is closed\n"),
        ("check - <&-", 2, "Error: standard input is closed\n"),
        ("check model.py <&-", 1, ""),
        ("check model.py 2>&-", 1, ""),
        ("check missing.py 2>&-", 2, ""),
        ("check --nonsense 2>&-", 2, ""),
        ("check model.py >&- 2>&-", 2, ""),
    ],
)
def test_closed_streams(tmp_path: Path, command: str, status: int, message: str) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = _in_a_shell(command, tmp_path)
    assert (done.returncode, done.stderr) == (status, message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["check missing.py", "check --nonsense", "check model.py --fix=1"])
def test_an_error_that_cannot_be_said_still_has_its_status(tmp_path: Path, arguments: str) -> None:
    assert _in_a_shell(f"{arguments} 2>/dev/full", tmp_path).returncode == 2


def _in_a_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m torchstray {command}', sys.executable],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_does_not_hang(torchstray_: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for arguments in ((), ("pipe.py",)):
        done = torchstray_("check", *arguments, "--output-format", "concise")
        assert _lines(done.stdout) == ["pipe.py:1:1: error unreadable-file This file is not a regular file."]
        assert done.returncode == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text(MODEL)
    (tmp_path / "secret.py").chmod(0)
    for arguments in ((), ("secret.py",)):
        done = torchstray_("check", *arguments, "--output-format", "concise")
        assert _lines(done.stdout) == [
            "secret.py:1:1: error unreadable-file This file cannot be read: Permission denied."
        ]


def test_missing_path(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("check", "model.py", "missing.py", "--fix")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "Error: missing.py does not exist\n")
    assert (tmp_path / "model.py").read_text() == MODEL


def test_empty_folder(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "void").mkdir()
    done = torchstray_("check", "void", "--output-format", "json")
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert done.stderr == "No Python files found under void.\n"


def test_notebook(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text("{}")
    done = torchstray_("check", "n.ipynb")
    assert done.returncode == 2
    assert done.stderr == "Error: n.ipynb is a notebook, and notebooks cannot be checked yet\n"


def test_broken_pyproject(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.torchstray]\nselect = [\n')
    done = torchstray_("check", "--fix")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {tmp_path / 'pyproject.toml'}:")
    assert "is not valid TOML" in done.stderr
    assert (tmp_path / "model.py").read_text() == MODEL
    assert torchstray_("check", "--isolated").returncode == 1


@pytest.mark.parametrize("options", [("--config", "a.toml", "--isolated"), ("-", "model.py")])
def test_options_that_exclude_each_other(torchstray_: Run, options: tuple[str, ...]) -> None:
    done = torchstray_("check", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr
