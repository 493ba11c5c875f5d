"""What is said of a module class: what it registers, and what it merely holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
import torch

from tests.rules.torch_confirmation import fresh_program
from tests.semantics.programs import module, script
from torchstray.overview import ClassOverview, Held, markdown, overviews
from torchstray.rules import all_rules
from torchstray.rules.rule import Rule
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document


def overview(code: str, name: str = "Net") -> ClassOverview:
    """The overview of one class of a program."""
    (found,) = [found for found in overviews(Document(code), Project()) if found.name == name]
    return found


def built(statements: str, **more: str) -> ClassOverview:
    """The overview of a class with these statements in its `__init__`."""
    return overview(module(statements, **more))


def named(held: Iterable[Held]) -> dict[str, str]:
    """What is held, by name, in order."""
    return {one.name: one.what for one in held}


def test_registered_in_the_order_of_the_source() -> None:
    found = built("""\
        self.w = nn.Parameter(torch.ones(size))
        self.register_buffer("mask", torch.ones(size), persistent=False)
        self.act, self.fc = nn.ReLU(), nn.Linear(size, size)
        self.b = nn.Buffer(torch.ones(size))
        self.add_module("head", nn.Linear(size, 1))
        self.register_parameter("bias", nn.Parameter(torch.zeros(1)))
        setattr(self, "last", nn.Identity())
        """)
    assert named(found.parameters) == {"w": "parameter", "bias": "parameter"}
    assert list(named(found.parameters)) == ["w", "bias"]
    assert list(named(found.buffers)) == ["mask", "b"]
    assert list(named(found.modules).items()) == [
        ("act", "nn.ReLU"),
        ("fc", "nn.Linear"),
        ("head", "nn.Linear"),
        ("last", "nn.Identity"),
    ]
    assert (found.unregistered, found.complete) == ((), True)


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        ("self.k = torch.zeros(size)", "plain tensor"),
        ("self.k = torch.zeros(size, requires_grad=True)", "plain tensor with a gradient"),
        ("self.k = nn.Parameter(torch.zeros(size)) * 0.1", "tensor computed from a parameter"),
        ("self.k = [nn.Linear(1, 1) for _ in range(count)]", "list of layers"),
        ("self.k = []\nself.k.append(nn.Linear(1, 1))", "list of layers"),
        ("self.k = (nn.Linear(1, 1), nn.Dropout())", "tuple of layers"),
        ("self.k = {'a': nn.Parameter(torch.zeros(1))}", "dict of parameters"),
        ("self.k = [torch.zeros(1), torch.ones(1)]", "list of tensors"),
        ("self.k = torch.distributions.Normal(torch.zeros(1), torch.ones(1))", "torch.distributions.Normal"),
        ("layer = nn.Linear(1, 1)\nself.k = lambda x: layer(x)", "function that holds layers"),
    ],
)
def test_what_stays_behind(statements: str, what: str) -> None:
    found = built(statements)
    assert named(found.unregistered) == {"k": what}
    assert (found.parameters, found.buffers, found.modules) == ((), (), ())


@pytest.mark.parametrize(
    "statements",
    [
        "self.k = size",
        "self.k = torch.zeros(3).sum().item()",
        "self.k = torch.zeros(3).shape",
        "self.k = [1, 2, 3]",
        "self.k = None",
        "self.k = torch.device('cpu')",
        "self.register_parameter('k', None)",
        "self.layers = nn.ModuleList([nn.Linear(1, 1)])\nself.k = [self.layers[0]]",
        "self.fc = nn.Linear(1, 1)\nself.k = [self.fc.weight]",
    ],
)
def test_numbers_and_aliases_are_not_held(statements: str) -> None:
    found = built(statements)
    held = (*found.parameters, *found.buffers, *found.modules, *found.unregistered)
    assert "k" not in named(held)


def test_a_second_name_of_a_parameter_is_a_parameter() -> None:
    found = built("self.fc = nn.Linear(1, 1)\nself.tied = self.fc.weight")
    assert named(found.parameters) == {"tied": "parameter"}


def test_what_forward_overwrites_is_not_held() -> None:
    statements = "self.hidden = torch.zeros(1)\nself.mask = torch.zeros(1)"
    forward = "self.hidden = torch.relu(x)\nself.last = x * 2\nreturn self.hidden + self.mask"
    assert named(built(statements, forward=forward).unregistered) == {"mask": "plain tensor"}
    assert named(built(statements, forward=f"y = x + self.hidden\n{forward}").unregistered) == {
        "hidden": "plain tensor",
        "mask": "plain tensor",
    }


def test_layers_by_the_name_that_the_file_uses() -> None:
    code = """\
        from torch.nn import Conv2d as Conv
        from torch import nn as layers
        class Block(nn.Module):
            pass
        def make(width, norm=nn.LayerNorm):
            return norm(width)
        class Net(nn.Module):
            def __init__(self, teacher: nn.Module, wide):
                super().__init__()
                self.conv = Conv(1, 1, 1)
                self.linear = layers.Linear(1, 1)
                self.block = Block()
                self.norm = make(3)
                self.teacher = teacher
                self.act = nn.ReLU() if wide else nn.GELU()
                if wide:
                    self.last = nn.Linear(1, 1)
                else:
                    self.last = nn.Identity()
        """
    assert named(overview(script(code)).modules) == {
        "conv": "Conv",
        "linear": "layers.Linear",
        "block": "Block",
        "norm": "nn.LayerNorm",
        "teacher": "nn.Module",
        "act": "nn.ReLU or nn.GELU",
        "last": "nn.Linear or nn.Identity",
    }


def test_inherited_and_class_attributes() -> None:
    code = script("""\
        class Base(nn.Module):
            scale = torch.ones(3)
            act = nn.ReLU()
            drop = nn.Dropout()
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(1, 1)
                self.build()
            def build(self):
                self.register_buffer("mask", torch.ones(1))
        class Net(Base):
            def __init__(self):
                super().__init__()
                self.k = torch.zeros(1)
        """)
    lines = code.splitlines()

    def rows(held: Iterable[Held]) -> dict[str, str]:
        return {one.name: lines[one.row - 1].strip() for one in held}

    found = overview(code)
    assert rows(found.modules) == {"fc": "self.fc = nn.Linear(1, 1)"}
    assert rows(found.buffers) == {"mask": 'self.register_buffer("mask", torch.ones(1))'}
    assert rows(found.unregistered) == {
        "scale": "scale = torch.ones(3)",
        "drop": "drop = nn.Dropout()",
        "k": "self.k = torch.zeros(1)",
    }
    assert named(found.unregistered) == {
        "scale": "plain tensor of the class",
        "drop": "nn.Dropout of the class",
        "k": "plain tensor",
    }


@pytest.mark.parametrize(
    ("base", "complete"),
    [
        ("nn.Module", True),
        ("nn.Module, abc.ABC", True),
        ("lightning.LightningModule", True),
        ("nn.Linear", False),
        ("nn.Sequential", False),
        ("other.Base, nn.Module", False),
        ("base(), nn.Module", False),
    ],
)
def test_a_base_class_that_cannot_be_seen(base: str, complete: bool) -> None:
    found = overview(f"import abc\nimport lightning\nimport other\nfrom torch import nn\nclass Net({base}): pass\n")
    assert found.complete is complete
    seen = "" if complete else ", as far as can be seen from here"
    assert markdown(found) == f"**Net** moves with `.to(device)`{seen}: nothing.\n\nStays behind: nothing.\n"


@pytest.mark.parametrize(
    ("before", "statements", "forward"),
    [
        ("from parts import Part\n", "self.part = Part(size)", "return x"),
        ("", "self.part = count", "return self.part(x)"),
    ],
)
def test_what_may_be_a_layer(before: str, statements: str, forward: str) -> None:
    found = overview(module(statements, forward, before=before))
    assert list(named(found.unknown)) == ["part"]
    assert not found.complete
    assert "- if they are layers: `part`\n" in markdown(found)


def test_one_layer_of_two_is_known() -> None:
    found = overview(module("self.part = Part(size) if count else nn.Identity()", before="from parts import Part\n"))
    assert (named(found.modules), found.unknown) == ({"part": "nn.Identity or another"}, ())


def test_only_module_classes_in_the_order_of_the_file_with_their_places() -> None:
    code = script("""\
        def make():
            class Inner(nn.Module):
                pass
            return Inner
        class Plain:
            pass
        @final
        class Outer(nn.Module):
            class Nested(nn.Module):
                pass
        """)
    found = overviews(Document(code), Project())
    assert [one.name for one in found] == ["Inner", "Outer", "Nested"]
    for one in found:
        assert code[one.name_span.start : one.name_span.end] == one.name
        assert re.match(rf"(@final\n)?class {one.name}\(", code[one.span.start :])
        assert code[one.span.start : one.span.end].endswith("pass")


def test_shown_as_markdown() -> None:
    found = built("""\
        self.__w = nn.Parameter(torch.ones(1))
        self.fc = nn.Linear(size, size)
        self.k = torch.zeros(size)
        """)
    row = found.unregistered[0].row
    assert markdown(found) == (
        "**Net** moves with `.to(device)`:\n- layers: `fc` (nn.Linear)\n- parameters: `__w`\n\n"
        f"Stays behind:\n- `k`: plain tensor, line {row}\n"
    )


def test_long_lists_are_cut() -> None:
    statements = "".join(
        f"self.fc{i} = nn.Linear(1, 1)\nself.w{i} = nn.Parameter(torch.ones(1))\nself.register_buffer('b{i}', None)\n"
        f"self.k{i} = torch.ones(1)\nself.u{i} = part()\n"
        for i in range(12)
    )
    found = overview(module(statements, before="from parts import part\n"))
    text = markdown(found)
    assert text.count(", and 7 more\n") == 4
    assert text.endswith("- and 7 more\n")
    assert text.count("\n") <= 13
    assert [len(group) for group in (found.parameters, found.buffers, found.modules, found.unregistered)] == [12] * 4


def programs() -> Iterator[tuple[str, str]]:
    """The examples of a class that torch can build, before and after the repair, each with what builds it."""
    for rule in all_rules():
        for bad in rule.bad:
            if bad.build is None or bad.build.startswith("type("):
                continue
            if not any("raises AttributeError" in message for message in bad.messages):
                yield re.sub("[«»]", "", bad.code), bad.build
            if bad.repaired is not None:
                yield bad.repaired, bad.build


def matching(names: Iterable[str], held: Iterable[Held]) -> list[str]:
    """Those of `names` that are held; the name of what is held may have parts that are made at run time."""
    patterns = [re.sub(r"\\{.*?\\}", ".+", re.escape(one.name)) for one in held]
    return [name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)]


@pytest.mark.parametrize(("code", "build"), list(programs()))
def test_torch_agrees(code: str, build: str) -> None:
    with fresh_program(code) as evaluate:
        made = evaluate(build)
        attributes = [*vars(made), *vars(type(made)), *made._parameters, *made._buffers, *made._modules]
        found = overview(code, type(made).__name__)
        assert found.complete
        for registered, held in (
            (made._parameters, found.parameters),
            (made._buffers, found.buffers),
            (made._modules, found.modules),
        ):
            names = [name for name, value in registered.items() if value is not None]
            assert matching(names, held) == names
        plain = [name for name, value in vars(made).items() if isinstance(value, torch.Tensor)]
        assert matching(plain, found.unregistered) == plain
        for one in (*found.parameters, *found.buffers, *found.modules, *found.unregistered):
            assert matching(attributes, [one]) != []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_programs_in_any_state_are_survived(rule: Rule) -> None:
    for example in [*(bad.code for bad in rule.bad), *(good.code for good in rule.good)]:
        code = re.sub("[«»]", "", example)
        for end in range(0, len(code) + 1, 37):
            for found in overviews(Document(code[:end] + code[end + 11 :]), Project()):
                assert markdown(found).startswith("**")
