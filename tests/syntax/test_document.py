from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from torchstray.syntax.document import Document, Statement
from torchstray.text.edits import Span
from torchstray.text.lines import Lines

PACKAGE = Path(cst.__file__).parent
# Real files of different kinds, the largest below 1,000 lines.
REAL_FILES = ["_nodes/module.py", "_parser/detect_config.py", "matchers/_decorators.py", "helpers/module.py"]

MODULE = '''\
import torch
from torch import nn


class Net(nn.Module):
    """A net."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.a = nn.Linear(size, 4)
        self.b = nn.Linear(4, 5)

    # Runs.
    @torch.no_grad()
    def forward(self, x):
        if x.sum() > 0:
            x = self.a(x)
        else:
            x = -self.a(x)
        return self.b(x)


net = Net()
'''


def nodes(statement: Statement) -> Iterator[cst.CSTNode]:
    todo: list[cst.CSTNode] = [statement.tree]
    while todo:
        node = todo.pop()
        yield node
        todo += node.children


def written(document: Document, kind: type[cst.CSTNode]) -> list[str]:
    """The text at each node of a kind, in the order of the text."""
    spans = sorted(s.span(node) for s in document.statements for node in nodes(s) if isinstance(node, kind))
    return [document.text[span.start : span.end] for span in spans]


def shape(document: Document) -> list[object]:
    """Everything a document says, for comparing."""
    trees = [[(type(node), s.span(node), s.whole_span(node)) for node in nodes(s)] for s in document.statements]
    return [document.problems, [(s.start, s.text) for s in document.statements], trees]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", REAL_FILES)
def test_spans_are_those_of_libcst(name: str, newline: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8").replace("\n", newline)
    document = Document(text)
    assert document.problems == ()
    lines = Lines(text)
    compared = 0
    for statement in document.statements:
        wrapper = MetadataWrapper(statement.tree, unsafe_skip_copy=True)
        first = lines.position(statement.start)[0] - 1
        for node, place in wrapper.resolve(PositionProvider).items():
            if isinstance(node, (cst.Module, cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine)):
                continue  # White space reaches past line ends, where columns say nothing.
            start = lines.offset(first + place.start.line, place.start.column + 1)
            end = lines.offset(first + place.end.line, place.end.column + 1)
            assert statement.span(node) == Span(start, end), node
            compared += 1
    assert compared > 100


def test_every_node_has_a_span() -> None:
    text = (PACKAGE / "_nodes/module.py").read_text(encoding="utf-8") + (
        "\nasync def f[T: int = str, *U, **V](a, /, b: int = (1), *c, d=2, **e) -> (x): ...\n"
        "match x:\n  case {'a': [1, *_], **r} | A(b=1) as c if d: pass\n  case -1 + 2j | None: pass\n"
        "try: a\nexcept* (A, B) as c: d\nelse: e\nfinally: f\n"
        "with (a as b, c): x = f'{a!r:>{b}}' 'c'\n"
        "type X[T] = list[T]\nfor (a), *b in c, d: del (a), b[1:2, ::3, ...]\n"
        "global_ = (yield (a)), (await b), lambda x, *y, z=1: (x if y else z), [i async for i in j if k], not a < b\n"
        "a: int = 1; a @= 2; assert a, b; raise A from b; import a.b as c, d; from .. import (a as b, c,)\n"
    )
    document = Document(text)
    assert document.problems == ()
    for statement in document.statements:
        for node in nodes(statement):
            span, whole = statement.span(node), statement.whole_span(node)
            assert statement.start <= whole.start <= span.start <= span.end <= whole.end
            assert whole.end <= statement.start + len(statement.text)


def test_spans_leave_out_space_and_own_parentheses() -> None:
    document = Document("import a\n\nx = f( ( b ) , *( c ), k = (yield) )  # d\n")
    assert written(document, cst.Arg) == ["( b )", "*( c )", "k = (yield)"]
    assert written(document, cst.Yield) == ["yield"]
    assert written(document, cst.SimpleStatementLine) == ["import a", "x = f( ( b ) , *( c ), k = (yield) )"]
    (statement,) = document.statements[1:]
    whole = sorted(
        statement.whole_span(node) for node in nodes(statement) if isinstance(node, (cst.Name, cst.Yield, cst.Call))
    )
    assert [document.text[span.start : span.end] for span in whole] == [
        "x", "f", "f( ( b ) , *( c ), k = (yield) )", "( b )", "( c )", "k", "(yield)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "\n", "\r\n\r\n", "# c", "x = 1", "x = 1\\\n", "\x0c\n", "  ", "\tx = 1\n",
     "x = 1\r\ny = 2\rz = 3\n\n# c\n  # d",
     "if a:\r\n\tb\r\n\tc\rd", "class A:\n  x\n # c\n\n    # d\n", "\x0cclass A:\n  x\n\x0c\ny\n",
     "x = '\x85\u2028\x0b'\n"],
)  # fmt: skip
def test_statements_keep_every_character(text: str) -> None:
    document = Document(text)
    assert "".join(statement.text for statement in document.statements) == text
    assert set(written(document, cst.Name)) <= set("xyzabcdA")


def test_spans_are_right_where_a_tree_does_not_hold_every_character() -> None:
    text = "\x0cx = 1\n\x0c\nclass A:\n\x0c  y\n  \n \x0c  z\n \\\n  c = d\n\x0c  \x0cdef f(a): b\n\n  # c"
    document = Document(text)
    assert document.problems == ()
    assert any(statement.tree.code != statement.text for statement in document.statements)
    assert written(document, cst.Name) == ["x", "A", "y", "z", "c", "d", "f", "a", "b"]
    assert written(document, cst.Assign) == ["x = 1", "c = d"]
    assert written(document, cst.FunctionDef) == ["def f(a): b"]


def test_nothing_is_parsed_before_it_is_asked_for() -> None:
    program = (
        "import sys; from torchstray.syntax.document import Document; d = Document('x = 1\\ny = (')\n"
        "assert len(d.statements) == 2 and 'libcst' not in sys.modules; d.problems; assert 'libcst' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- Text that does not parse ---


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("old", "new", "problem", "message"),
    [
        ("nn.Linear(size, 4)", "nn.Linear(", "self.a = nn.Linear(", "`(` is never closed"),
        ("self.a = nn.Linear(size, 4)", "x =", "x =", "not valid Python"),
        ("self.a = nn.Linear(size, 4)", ")", ")", "unmatched ')'"),
        ("nn.Linear(size, 4)", "'abc", "self.a = 'abc", "a string is never closed"),
        ("            x = -self.a(x)", "            x = -", "x = -", "not valid Python"),
        ("return self.b(x)", "return self.b(x", "return self.b(x", "`(` is never closed"),
        (
            "size: int = 3)",
            "size: int =",
            "def __init__(self, size: int =*self.b = nn.Linear(4, 5)",
            "`(` is never closed",
        ),
        ("return self.b(x)", 'return """', 'return """', "a triple-quoted string is never closed"),
        ("if x.sum() > 0:", "if x.sum() > 0", "if x.sum() > 0*x = -self.a(x)", "`:` is missing"),
        ("self.b = nn.Linear(4, 5)", "if size:", "if size:", "an indented block is missing"),
        (
            "        self.b = nn",
            "      self.b = nn",
            "self.b = nn.Linear(4, 5)",
            "the indentation fits no block around it",
        ),
        (
            "        return self.b(x)",
            "      return self.b(x)",
            "return self.b(x)",
            "the indentation fits no block around it",
        ),
        ('"""A net."""', "x = 1\n        y = 2", "x = 1*y = 2", "not valid Python"),
    ],
)
def test_the_rest_of_a_class_outlives_a_broken_line(
    old: str, new: str, problem: str, message: str, newline: str
) -> None:
    assert MODULE.count(old) == 1
    text = MODULE.replace(old, new).replace("\n", newline)
    document = Document(text)
    (found,) = document.problems
    start, _, end = problem.partition("*")
    broken = text[found.span.start : found.span.end]
    assert (broken.startswith(start) and broken.endswith(end or start), found.message) == (True, message)

    intact = Document(MODULE.replace("\n", newline))
    for kind in (cst.Import, cst.ClassDef, cst.FunctionDef, cst.Return, cst.Call, cst.Attribute):
        kept = [piece for piece in written(intact, kind) if piece not in written(document, kind)]
        # What is missing is in the broken piece or around it.
        assert all(old in piece or piece in old or start in piece or piece in broken for piece in kept), (kind, kept)
    assert "class Net(nn.Module)" in "".join(written(document, cst.ClassDef))
    assert written(document, cst.Assign)[-1] == "net = Net()"


def test_several_broken_pieces_are_found_one_by_one() -> None:
    text = (
        MODULE.replace("nn.Linear(size, 4)", "nn.Linear(").replace("-self.a(x)", "-").replace("net = Net()", "net = )")
    )
    document = Document(text)
    broken = [text[problem.span.start : problem.span.end] for problem in document.problems]
    assert broken == ["self.a = nn.Linear(", "x = -", "net = )"]
    assert written(document, cst.Assign) == ["self.b = nn.Linear(4, 5)", "x = self.a(x)"]
    assert document.statements[-1].tree.body == ()
    assert [problem for statement in document.statements for problem in statement.problems] == list(document.problems)


def test_an_open_string_swallows_no_other_class() -> None:
    text = 'x = """\n' + MODULE + MODULE.replace("Net", "Other")
    document = Document(text)
    assert [text[problem.span.start : problem.span.end] for problem in document.problems] == ['x = """']
    names = [node.name.value for s in document.statements for node in nodes(s) if isinstance(node, cst.ClassDef)]
    assert names == ["Net", "Other"]


@pytest.mark.parametrize("count", [200, 20_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [("(", ")"), ("(", ""), ("f(a, [", "])"), ("{a:", "}"), ("not ", ""), ("a + ", ""), ("a.", ""),
     ("lambda x, y: ", ""), ("f'{", "}'"), ("(a if b else ", ")")],
)  # fmt: skip
def test_deep_nesting_is_a_problem_and_never_an_exception(before: str, after: str, count: int) -> None:
    program = (
        "import sys; from torchstray.syntax.document import Document; before, after, count = sys.argv[1:]\n"
        "text = 'import a\\nx = ' + before * int(count) + 'b' + after * int(count) + '\\ny = 1\\n'\n"
        "d = Document(text); (p,) = d.problems; assert p.message == 'nested too deeply', p.message\n"
        "assert [len(s.tree.body) for s in d.statements] == [1, 0, 1]"
    )
    # A process of its own: a native parser that runs out of stack ends the process.
    subprocess.run([sys.executable, "-c", program, before, after, str(count)], check=True, timeout=60)


def test_what_libcst_reads_and_then_refuses_is_a_problem() -> None:
    document = Document("x = 1\ny = [a for a in.5]\n")
    assert [(problem.span, problem.message) for problem in document.problems] == [(Span(6, 24), "not valid Python")]


def test_strings_side_by_side_nest_too() -> None:
    assert [problem.message for problem in Document("x = " + "'a' " * 1_000 + "\n").problems] == ["nested too deeply"]


def test_long_is_not_deep() -> None:
    text = "x = [" + "(1, 2), " * 2_000 + "]\ny = {\n" + "    'a': [1, {'b': (2,)}],\n" * 500 + "}\n"
    assert Document(text).problems == ()
    assert Document("x = " + "a + " * 100 + "b\n").problems == ()


# --- Versions of one document ---


def test_equal_statements_share_their_tree_with_the_previous_version() -> None:
    old = Document(MODULE)
    trees = [statement.tree for statement in old.statements]
    new = Document(MODULE.replace("import torch\n", "import torch\n\nx = 1\n"), old)
    assert new.statements[-1].tree is trees[-1]
    assert new.statements[-2].tree is trees[-2]
    moved = new.statements[-1].span(trees[-1].body[0])
    assert new.text[moved.start : moved.end] == "net = Net()"


def test_equal_statements_of_one_document_have_trees_of_their_own() -> None:
    old = Document("f(x)\n")
    new = Document("f(x)\nf(x)\n", old)
    assert new.statements[0].tree is old.statements[0].tree
    assert new.statements[1].tree is not new.statements[0].tree


def test_what_is_made_of_a_tree_is_made_once_for_all_versions() -> None:
    asked: list[cst.Module] = []

    def length(tree: cst.Module) -> int:
        asked.append(tree)
        return len(tree.body)

    old = Document("a = 1\nb = 2\n")
    assert [statement.derived(length) for statement in old.statements] == [1, 1]
    new = Document("a = 1\nb = 3; c = 4\n", old)
    assert [statement.derived(length) for statement in new.statements] == [1, 1]
    assert asked == [*(statement.tree for statement in old.statements), new.statements[1].tree]


EDITS = [
    "", "(", ")", "[", "}", '"', "'", '"""', "'''", "#", "\\", "\n", "\r\n", "\r", "\n\n", "    ", "\t", "\x0c", "@a\n",
    ":", "else:", "x = ", "class B:\n", "def f(", "f'{", "\u2028", "\x85", "é", "if a:\n    ", "return ", "import a\n",
    "\\\n", ";",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_edited_documents_are_as_fresh_ones(seed: int) -> None:
    chance = random.Random(seed)
    text = MODULE.replace("\n", ["\n", "\r\n", "\n", "\r"][seed])
    document = Document(text)
    valid = 0
    for _ in range(60):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 0, 0, 1, 5, 40]))
        text = text[:start] + chance.choice(EDITS) + text[end:]
        document = Document(text, document)
        assert shape(document) == shape(Document(text))
        assert "".join(statement.text for statement in document.statements) == text
        masked = "".join(statement.tree.code for statement in document.statements)
        try:
            whole = cst.parse_module(text)
        except cst.ParserSyntaxError:
            pass
        else:
            # What libcst reads as a whole is read the same in pieces.
            valid += 1
            assert document.problems == ()
            assert len(masked) <= len(text)
            kinds = [type(statement) for statement in whole.body]
            assert [type(piece) for s in document.statements for piece in s.tree.body] == kinds
        if chance.random() < 0.6:
            text = MODULE
            document = Document(text, document)
    assert valid > 5


@pytest.mark.parametrize(
    ("number", "fits"),
    [
        ("9" * 4300, True),
        ("9" * 4301, False),
        ("_".join("9" * 4300), True),
        ("_".join("9" * 4301), False),
        ("0x" + "9" * 5000, True),
        ("9" * 5000 + ".5", True),
        ("9" * 5000 + "e1", True),
        ("9" * 5000 + "j", True),
        (repr("9" * 5000), True),
    ],
)
def test_numbers_are_as_long_as_python_reads_them(number: str, fits: bool) -> None:
    document = Document(f"def f():\n    a = 1\n    x = {number}\n    y = 2\n")
    problems = [] if fits else ["a number of more than 4,300 digits"]
    assert [problem.message for problem in document.problems] == problems
    assert all(document.lines.position(problem.span.start) == (3, 5) for problem in document.problems)
