from __future__ import annotations

import ast
import random
import sysconfig
import time
from pathlib import Path

import pytest

from torchstray.syntax.splitter import logical_lines, split
from torchstray.text.lines import Lines
from torchstray.text.source import UnreadableText, decode


def pieces(text: str) -> list[str]:
    starts = split(text)
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def first_lines(text: str) -> list[str]:
    return [Lines(piece).line(1) for piece in pieces(text)]


def standard_library(count: int) -> list[str]:
    """Some of the running Python's own modules that it can parse."""
    files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    random.Random(3).shuffle(files)
    texts: list[str] = []
    for file in files:
        if len(texts) == count:
            break
        if "site-packages" in file.parts:
            continue
        try:
            text = decode(file.read_bytes()).text
            ast.parse(text)
        except (UnreadableText, SyntaxError):
            continue
        texts.append(text)
    return texts


@pytest.mark.filterwarnings("ignore")  # of the modules' own spelling
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_agrees_with_ast_on_the_standard_library(newline: str) -> None:
    texts = standard_library(60)
    assert len(texts) == 60
    for original in texts:
        text = original.replace("\n", newline)
        lines = Lines(text)
        starts = {
            lines.offset(min(node.lineno for node in (statement, *getattr(statement, "decorator_list", ()))), 1)
            for statement in ast.parse(original).body
        }
        assert split(text)[1:] == sorted(starts)[1:]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", [""]),
        ("\n# c\n", [""]),
        ("x = 1", ["x = 1"]),
        ("# c\n\nx = 1\n# d\ny = 2", ["# c", "y = 2"]),
        ("if a:\n  b\nelif c:\n  d\n# c\nelse:\n  e\nf", ["if a:", "f"]),
        ("try:\n a\nexcept* E:\n b\nelse:\n c\nfinally:\n d\ne", ["try:", "e"]),
        ("for a in b: c\nelse: d\nwhile a: b\nelse: c\n", ["for a in b: c", "while a: b"]),
        ("@a\n# c\n\n@b(\n1)\nclass C: pass\n@a\nasync def f(): ...\ndef g(): ...", ["@a", "@a", "def g(): ..."]),
        ("match x:\n  case 1:\n    y\nz", ["match x:", "z"]),
        (
            "type A[T] = list[T]\ndef f[T: (int, str) = int](x: T): ...\nclass A[*T]: ...",
            ["type A[T] = list[T]", "def f[T: (int, str) = int](x: T): ...", "class A[*T]: ..."],
        ),
        ("async def f():\n  async with a: b\nasync for x in y: z\nelse: w", ["async def f():", "async for x in y: z"]),
        ("x = 1 + \\\n2\ny = \\\n\\\n  3", ["x = 1 + \\", "y = \\"]),
        ("x\n\\\nclass A: ...\ny", ["x", "\\", "y"]),
        ("x = [\n1,\n# ]\n']'\n]\ny", ["x = [", "y"]),
        ('x = """\na\ndef f():\n"""\ny', ['x = """', "y"]),
        ("x = r'\\'\ny = 'a\\\nb'\nz", ["x = r'\\'", "y = 'a\\", "z"]),
        ("\x0cclass A:\n  x\n\x0c\n\x0c  \x0cclass B:\n  y\n", ["\x0cclass A:", "\x0c  \x0cclass B:"]),
        ("a\x85b = 1\nc = 'x\u2028y'\n", ["a\x85b = 1", "c = 'x\u2028y'"]),
        ("x = f'{a['b']}'\ny = f\"{f\"{'}'}\"}\"\nz", ["x = f'{a['b']}'", 'y = f"{f"{\'}\'}"}"', "z"]),
        ("x = f'{{'\ny = f'{a:{b}}}}'\nz = rf'\\{a}'", ["x = f'{{'", "y = f'{a:{b}}}}'", "z = rf'\\{a}'"]),
        (
            "x = f'''{\na # '''\n}'''\ny = t'{a!r:>{b}}'\nz = f'\\N{DASH}{x}'",
            ["x = f'''{", "y = t'{a!r:>{b}}'", "z = f'\\N{DASH}{x}'"],
        ),
        (
            "x = f'{d[\"a\"]:%H:%M}' 'b'\ny = f'{lambda: 1}{x:=^5}{a != b}'\nz",
            ["x = f'{d[\"a\"]:%H:%M}' 'b'", "y = f'{lambda: 1}{x:=^5}{a != b}'", "z"],
        ),
        ("x = f'{\n1\n}'\ny", ["x = f'{", "y"]),
    ],
)
def test_cuts_at_statements(text: str, starts: list[str]) -> None:
    assert first_lines(text) == starts
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("x = foo(\nclass A:\n  b = 1\n", ["x = foo(", "class A:"]),
        ("x = [1,\ndef f(): ...", ["x = [1,", "def f(): ..."]),
        ("x = {\nasync def f(): ...", ["x = {", "async def f(): ..."]),
        ("x = (\nimport a\nfrom b import c\ny = 1", ["x = (", "import a", "from b import c", "y = 1"]),
        ("x = (\n@a\n@b\nclass C: ...", ["x = (", "@a"]),
        ("x = (\ny = 1\nz = 2\n", ["x = (", "y = 1", "z = 2"]),
        ("class A:\n  def f(self):\n    g(\n  def h(self): ...\nx = 1\n", ["class A:", "x = 1"]),
        ("class A:\n  def f(self):\n    g(\n    self.a = 1\nx = 1\n", ["class A:", "x = 1"]),
        ("x = 'abc\ny = 1", ["x = 'abc", "y = 1"]),
        ("x = f'{abc\ny = 1", ["x = f'{abc", "y = 1"]),
        ("x = f'{abc'\ny = 1", ["x = f'{abc'", "y = 1"]),
        ('x = """abc\nclass A:\n  y = 1\n', ['x = """abc', "class A:"]),
        ('x = """abc\nclass A:\n  """Doc."""\n  y\nz = 1', ['x = """abc', "class A:", "z = 1"]),
        ('x = f"""{abc\nclass A:\n  y = 1\n', ['x = f"""{abc', "class A:"]),
        ('class A:\n  def f(self):\n    """\n  def g(self):\n    """Doc."""\nz = 1', ["class A:", "z = 1"]),
        ("x = foo \\\nclass A: ...", ["x = foo \\", "class A: ..."]),
        ("x = 1\nelse:\n  y\nz", ["x = 1", "else:", "z"]),
        ("@a\nx = 1\n", ["@a", "x = 1"]),
        (")]}\nx = 1", [")]}", "x = 1"]),
        ("x = 1)\ny = (1]\nz", ["x = 1)", "y = (1]", "z"]),
        ("  x = 1\ny", ["  x = 1", "y"]),
        ("x = a $ b ? c\ny", ["x = a $ b ? c", "y"]),
    ],
)
def test_damage_stays_where_it_is(text: str, starts: list[str]) -> None:
    assert first_lines(text) == starts
    assert "".join(pieces(text)) == text


def test_brackets_hold_what_only_looks_like_a_statement() -> None:
    text = "x = (a\n@ b\nif c else d)\ny = [x\nasync for x in y\nfor z in x]\nf(\na = 1,\nb=2)\nz = (yield\nfrom_x)\n"
    assert first_lines(text) == ["x = (a", "y = [x", "f(", "z = (yield"]


def test_logical_lines_know_their_indentation_and_end() -> None:
    text = "if a: # c\n\n\tb = (1,\n2)  # d\n# e\n\x0c  c\n"
    found = [(line.indentation, text[line.word : line.end]) for line in logical_lines(text)]
    assert found == [("", "if a: # c"), ("\t", "b = (1,\n2)  # d"), ("  ", "c")]


@pytest.mark.parametrize(
    "unit",
    [
        "f(\n",
        'x = """\n',
        'x = f"""{\n',
        "x = f'{a",
        "(",
        "[]",
        "@a\n",
        "\\\n",
        "\\",
        '"',
        "'\"",
        "def f():\n '''Doc\n",
    ],
)
def test_takes_linear_time_whatever_it_meets(unit: str) -> None:
    def seconds(count: int) -> float:
        text = unit * count
        best = 99.0
        for _ in range(3):
            start = time.process_time()
            split(text)
            best = min(best, time.process_time() - start)
        return best

    # Ten times the text may take ten times as long, not a hundred times; the addend is for what a clock cannot see.
    assert seconds(10_000) < 30 * seconds(1_000) + 0.05


def test_a_file_of_50000_lines() -> None:
    text = "class A(nn.Module):\n    def f(self, x):\n        return self.g(x, [1, 2], 'a')\n\n" * 12_500
    assert len(split(text)) == 12_500
