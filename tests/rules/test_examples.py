"""Every example of every rule does what it says, and real torch agrees."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rules.torch_confirmation import observe, same
from torchstray.check import check
from torchstray.config import Configuration
from torchstray.repair import repair
from torchstray.rules import all_rules
from torchstray.rules.rule import Bad, Finding, Good, Rule
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document
from torchstray.text.edits import Span

HEADINGS = ["What it finds", "Why it matters", "Example", "Repair", "When to ignore it"]
RULES = [pytest.param(rule, id=rule.name) for rule in all_rules()]
BAD = [
    pytest.param(rule, bad, id=f"{rule.name}-{number}")
    for rule in all_rules()
    for number, bad in enumerate(rule.bad, 1)
]
GOOD = [
    pytest.param(good, id=f"{rule.name}-{number}") for rule in all_rules() for number, good in enumerate(rule.good, 1)
]
BUILT = [param for param in BAD if isinstance(param.values[1], Bad) and param.values[1].build is not None]


@dataclass(frozen=True)
class Marked:
    """The code of an example without its marks, and the ranges that they marked, sorted."""

    code: str
    spans: list[Span]


def read_marks(text: str) -> Marked:
    code, spans, opened = "", [], []
    for piece in re.split("([«»])", text):
        if piece == "«":
            opened.append(len(code))
        elif piece == "»":
            spans.append(Span(opened.pop(), len(code)))
        else:
            code += piece
    assert not opened, "a « without its »"
    return Marked(code, sorted(spans))


def find(document: Document) -> list[Finding]:
    return check(document, Project(), Configuration(Path.cwd()))


def test_marks_are_read() -> None:
    assert read_marks("«a» = [«b, «c»»]") == Marked("a = [b, c]", [Span(0, 1), Span(5, 9), Span(8, 9)])


def test_there_are_rules() -> None:
    assert RULES


@pytest.mark.parametrize("rule", RULES)
def test_names_agree(rule: Rule) -> None:
    assert type(rule).__name__ == rule.name.title().replace("-", "")
    assert type(rule).__module__ == "torchstray.rules." + rule.name.replace("-", "_")


@pytest.mark.parametrize("rule", RULES)
def test_page_has_its_headings_in_order(rule: Rule) -> None:
    page = inspect.getdoc(type(rule)) or ""
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    assert page.startswith("## ")
    assert all(section.strip() for section in re.split(r"^## .+$", page, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize("rule", RULES)
def test_there_are_enough_examples(rule: Rule) -> None:
    assert len(rule.bad) >= 3
    assert len(rule.good) >= 4


@pytest.mark.parametrize(("rule", "bad"), BAD)
def test_bad_example_is_found(rule: Rule, bad: Bad) -> None:
    marked = read_marks(bad.code)
    compile(marked.code, "<example>", "exec")
    findings = find(Document(marked.code))
    assert [(finding.rule, finding.span) for finding in findings] == [(rule.name, span) for span in marked.spans]
    assert tuple(finding.message for finding in findings) == bad.messages
    assert all(finding.severity <= rule.severity for finding in findings)


@pytest.mark.parametrize(("rule", "bad"), BAD)
def test_bad_example_is_repaired(rule: Rule, bad: Bad) -> None:
    document = Document(read_marks(bad.code).code)
    if bad.repaired is None:
        assert [finding.fixes for finding in find(document)] == [()] * len(bad.messages)
        return
    result = repair(
        document, lambda text: [finding for finding in find(text) if finding.rule == rule.name], unsafe=True
    )
    assert result.document.text == bad.repaired
    assert find(Document(bad.repaired)) == []


@pytest.mark.parametrize("good", GOOD)
def test_good_example_is_silent(good: Good) -> None:
    compile(good.code, "<example>", "exec")
    assert find(Document(good.code)) == []
    assert good.why


@pytest.mark.parametrize(("rule", "bad"), BUILT)
def test_torch_confirms(rule: Rule, bad: Bad) -> None:
    assert bad.build is not None
    before = observe(read_marks(bad.code).code, bad.build, bad.inputs)
    if rule.name == "before-super-init":
        assert before.failure is not None or before.strays or bad.repaired is not None
    else:
        assert before.failure is None
        assert before.faults
    if bad.repaired is None:
        return
    after = observe(bad.repaired, bad.build, bad.inputs)
    assert after.faults == ()
    assert before.state_keys <= after.state_keys
    if rule.name == "before-super-init" and not before.faults:
        assert before.state_keys < after.state_keys, "nothing was lost before the repair"
    if bad.same_output and before.failure is None:
        assert same(before.output, after.output)


HIDDEN = """
    import torch
    from torch import nn

    class Hidden(nn.Module):
        shared = torch.ones(2)

        def __init__(self):
            super().__init__()
            self.alone = nn.Linear(2, 2)
            self.alias = self.alone
            self.parameters_again = [self.alone.weight]
            self.register_buffer("scale", torch.ones(2))
            self.old_scale = self.scale
            self.layers = [nn.Linear(2, 2), nn.ReLU(), nn.Dropout()]
            self.nested = {"a": (torch.zeros(1), 3)}
            shift = torch.zeros(2)
            self.add = lambda x: x + shift

        def forward(self, x):
            return nn.ReLU()(nn.Linear(2, 2)(x * self.scale))
"""


def test_torch_sees_through_every_hiding_place() -> None:
    seen = observe(textwrap.dedent(HIDDEN), "Hidden()", "(torch.ones(1, 2),)")
    assert seen.strays == (
        "self.Hidden.shared",
        "self.add.<shift>",
        "self.layers[0]",
        "self.layers[2]",
        "self.nested['a'][0]",
        "self.old_scale",
    )
    assert seen.built_in_forward == ("Linear", "Parameter")
    assert seen.state_keys == {"alone.weight", "alone.bias", "alias.weight", "alias.bias", "scale"}
    assert seen.failure is None


def test_torch_finds_a_well_made_module_right() -> None:
    code = textwrap.dedent("""
        import torch
        from torch import nn

        class Fine(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Dropout()])
                self.register_buffer("scale", torch.ones(2), persistent=False)

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x * self.scale)
                return x
    """)
    seen = observe(code, "Fine()", "(torch.ones(1, 2),)")
    assert seen.faults == ()
    assert same(seen.output, observe(code, "Fine()", "(torch.ones(1, 2),)").output)


def test_torch_draws_the_same_wherever_a_layer_is_built() -> None:
    late = textwrap.dedent("""
        import torch
        from torch import nn

        class Late(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(2, 3)

            def forward(self, x):
                second = nn.Linear(3, 1)
                return second(self.first(x))
    """)
    early = late.replace("        second = nn.Linear(3, 1)\n", "").replace("second(self", "self.second(self")
    early = early.replace("(2, 3)", "(2, 3)\n        self.second = nn.Linear(3, 1)")
    inputs = "(torch.rand(1, 2),)"
    assert same(observe(late, "Late()", inputs).output, observe(early, "Late()", inputs).output)


def test_torch_notices_a_result_that_differs() -> None:
    code = textwrap.dedent("""
        from torch import nn

        class Scale(nn.Module):
            def forward(self, x):
                return x * 2
    """)
    inputs = "(__import__('torch').ones(1, 2),)"
    one, other = observe(code, "Scale()", inputs), observe(code.replace("2\n", "3\n"), "Scale()", inputs)
    assert not same(one.output, other.output)


def test_torch_notices_layers_that_come_too_early() -> None:
    code = textwrap.dedent("""
        from torch import nn

        class Early(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(2, 2)
                super().__init__()
    """)
    assert "before Module.__init__" in str(observe(code, "Early()", "()").failure)


def test_torch_notices_devices_that_meet() -> None:
    code = textwrap.dedent("""
        import torch
        from torch import nn

        class Masked(nn.Module):
            def forward(self, x):
                mask = torch.ones(2)
                mask.to(x.device)
                return x * mask
    """)
    inputs = "(torch.ones(1, 2),)"
    assert observe(code, "Masked()", inputs).mixed_devices
    assert observe(code.replace("mask.to(", "mask = mask.to("), "Masked()", inputs).faults == ()


def test_torch_notices_a_parameter_that_was_computed_by_moving_it() -> None:
    code = textwrap.dedent("""
        import torch
        from torch import nn

        class Moved(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2)).to(device)

            def forward(self, x):
                return x * self.weight
    """)
    inputs = "(torch.ones(1, 2),)"
    assert observe(code, "Moved('cpu')", inputs).strays == ("self.weight",)
    assert observe(code, "Moved('cuda:1')", inputs).strays == ("self.weight",)
    assert observe(code.replace(".to(device)", ""), "Moved('cpu')", inputs).faults == ()


def test_torch_knows_that_parameters_move_in_place() -> None:
    code = textwrap.dedent("""
        import torch
        from torch import nn

        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))
                self.weights = [self.weight]

            def forward(self, x):
                return x * self.weights[0]
    """)
    assert observe(code, "Twice()", "(torch.ones(1, 2),)").faults == ()
