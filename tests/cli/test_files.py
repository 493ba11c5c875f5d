"""Which files a run finds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchstray import files
from torchstray.config import Configurations

from .conftest import MODEL, Run


def _make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MODEL)


def _found(root: Path, *paths: str) -> list[str]:
    given = [root / path for path in paths] or [root]
    return [path.relative_to(root).as_posix() for path in files.find(given, Configurations())]


def test_python_files_in_a_stable_order(tmp_path: Path) -> None:
    _make(tmp_path, "b.py", "a/z.pyi", "a/b/c.py", "a.py", "notes.txt", "m.ipynb", "a-b/x.py")
    assert _found(tmp_path) == ["a/b/c.py", "a/z.pyi", "a-b/x.py", "a.py", "b.py"]


def test_each_file_once(tmp_path: Path) -> None:
    _make(tmp_path, "a/m.py", "b.py")
    assert _found(tmp_path, "b.py", ".", "a", "a/../b.py") == ["a/m.py", "b.py"]


def test_junk_is_passed_over_unless_named(tmp_path: Path) -> None:
    junk = ("build", "dist", ".venv", "node_modules", "__pycache__", "site-packages", ".git")
    _make(tmp_path, "m.py", *(f"{folder}/m.py" for folder in junk))
    _make(tmp_path, "venv-3.11/lib/m.py")
    (tmp_path / "venv-3.11" / "pyvenv.cfg").write_text("")
    assert _found(tmp_path) == ["m.py"]
    assert _found(tmp_path, "build") == ["build/m.py"]
    assert _found(tmp_path, ".venv/m.py") == [".venv/m.py"]


def test_gitignore_files_are_respected_at_every_level(tmp_path: Path) -> None:
    _make(tmp_path, "a.py", "out/b.py", "pkg/gen_x.py", "pkg/keep.py", "pkg/gen_keep.py", "pkg/sub/gen_y.py", "top.py")
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("/top.py\n")
    (tmp_path / ".gitignore").write_text("# a comment\n\nout/\ngen_*.py\n")
    (tmp_path / "pkg" / ".gitignore").write_text("!gen_keep.py\n")
    assert _found(tmp_path) == ["a.py", "pkg/gen_keep.py", "pkg/keep.py"]
    assert _found(tmp_path, "pkg") == ["pkg/gen_keep.py", "pkg/keep.py"]
    assert _found(tmp_path, "pkg/sub") == []
    assert _found(tmp_path, "pkg/gen_x.py") == ["pkg/gen_x.py"]
    assert _found(tmp_path, "out") == ["out/b.py"]


def test_a_gitignore_above_the_repository_does_not_count(tmp_path: Path) -> None:
    _make(tmp_path, "repository/a.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / "repository" / ".git").mkdir()
    assert _found(tmp_path, "repository") == ["repository/a.py"]


def test_exclude_counts_from_the_configuration_and_not_for_named_files(tmp_path: Path) -> None:
    _make(tmp_path, "a.py", "legacy/b.py", "pkg/legacy/c.py", "pkg/d_pb2.py")
    (tmp_path / "pyproject.toml").write_text('[tool.torchstray]\nexclude = ["/legacy", "*_pb2.py"]\n')
    assert _found(tmp_path) == ["a.py", "pkg/legacy/c.py"]
    assert _found(tmp_path, "legacy/b.py") == ["legacy/b.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_links(tmp_path: Path) -> None:
    _make(tmp_path, "pkg/a.py", "elsewhere.txt")
    (tmp_path / "pkg" / "loop").symlink_to(tmp_path / "pkg")
    (tmp_path / "pkg" / "again.py").symlink_to("a.py")
    (tmp_path / "pkg" / "b.py").symlink_to(tmp_path / "elsewhere.txt")
    assert _found(tmp_path) == ["pkg/a.py", "pkg/b.py"]
    assert _found(tmp_path, "pkg/loop") == ["pkg/loop/a.py", "pkg/loop/b.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may list everything")
def test_a_folder_without_permission(torchstray_: Run, tmp_path: Path) -> None:
    _make(tmp_path, "a.py", "secret/b.py")
    (tmp_path / "secret").chmod(0)
    try:
        for argument in (".", "secret"):
            done = torchstray_("check", argument, "--output-format", "concise")
            assert "secret:1:1: error unreadable-file This file is a folder that cannot be listed." in done.stdout
            assert done.returncode == 1
    finally:
        (tmp_path / "secret").chmod(0o700)


def test_missing_paths_and_notebooks(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text("{}")
    with pytest.raises(files.UnusablePath, match="does not exist"):
        _found(tmp_path, "missing.py")
    with pytest.raises(files.UnusablePath, match="notebook"):
        _found(tmp_path, "n.ipynb")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.py", None),
        ("build/b.py", "folders named build are not searched"),
        ("env/b.py", "it is a virtual environment"),
        ("ignored.py", "it is ignored by ignored.py in "),
        ("old/b.py", 'it is excluded by "old" in `exclude`'),
        ("notes.txt", "it is no Python file"),
    ],
)
def test_why_a_file_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str | None) -> None:
    _make(tmp_path, "a.py", "build/b.py", "env/b.py", "env/pyvenv.cfg", "ignored.py", "old/b.py", "notes.txt")
    (tmp_path / ".gitignore").write_text("\nignored.py\n")
    (tmp_path / "pyproject.toml").write_text('[tool.torchstray]\nexclude = ["old"]\n')
    monkeypatch.chdir(tmp_path)
    skipped = files.why_skipped(Path(name), Configurations())
    assert skipped is None if why is None else skipped is not None and why in skipped
