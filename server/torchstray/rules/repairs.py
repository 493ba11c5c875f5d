"""Building blocks of repairs: what stands where in the text, and edits that change it as its author would."""

from __future__ import annotations

import re

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.facts import Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Stray
from torchstray.semantics.values import Container, Name, Place, Scalar, Shape, Value, contents
from torchstray.text.edits import Edit, Span

MODULES = ("torch.nn.ModuleList", "torch.nn.ModuleDict")
PARAMETERS = ("torch.nn.ParameterList", "torch.nn.ParameterDict")


def text_of(model: FileModel, span: Span) -> str:
    """The characters of `span`."""
    return model.document.text[span.start : span.end]


def shortened(model: FileModel, place: Place) -> str:
    """The text of a call, with `…` for arguments that span lines."""
    text = text_of(model, place.span)
    if "\n" not in text and "\r" not in text:
        return text
    assert isinstance(place.node, cst.Call)
    return " ".join(text_of(model, place.statement.span(place.node.func)).split()) + "(…)"


def shown_attribute(model: FileModel, store: Store) -> str:
    """`self.name` of what a store sets."""
    return shown_name(model, store.statement, store.attribute)


def shown_name(model: FileModel, place: Place, name: str) -> str:
    """`self.name`, with the parts of a name that the call at `place` makes at run time as the user wrote them."""
    if "{}" in name and isinstance(place.node, cst.Call):
        written = [argument.value for argument in place.node.args if isinstance(argument.value, cst.FormattedString)]
        if written:
            text = text_of(model, place.statement.span(written[0]))
            name = text.lstrip("fFrR").strip("\"'")
    return "self." + name.replace("{}", "…")


def row_of(model: FileModel, place: Place) -> int:
    """The line (from 1) on which `place` starts."""
    return model.document.lines.position(place.span.start)[0]


def line_start(model: FileModel, offset: int) -> int:
    """The offset at which the line of `offset` starts."""
    lines = model.document.lines
    return lines.offset(lines.position(offset)[0], 1)


def line_end(model: FileModel, offset: int) -> int:
    """The offset behind the end of the line of `offset`, its line end included."""
    lines = model.document.lines
    row, _ = lines.position(offset)
    return lines.offset(row + 1, 1) if row < len(lines) else len(model.document.text)


def indentation(model: FileModel, offset: int) -> str:
    """The white space before the first character of the line of `offset`."""
    start = line_start(model, offset)
    line = model.document.text[start : line_end(model, offset)]
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def stands_alone(model: FileModel, span: Span) -> bool:
    """Whether nothing but white space and a comment shares the lines of `span`."""
    text = model.document.text
    before = text[line_start(model, span.start) : span.start]
    after = text[span.end : line_end(model, span.end)].strip()
    return not before.strip() and (not after or after.startswith("#"))


def delete_lines(model: FileModel, span: Span) -> Edit:
    """Removes all lines of `span`, comments behind it included, and the blank lines that it would leave behind
    another blank line or at the top of a block."""
    lines = model.document.lines
    start, end = line_start(model, span.start), line_end(model, span.end)
    row, _ = lines.position(start)
    before = lines.line(row - 1).rstrip() if row > 1 else ""
    if not before or before.endswith(":"):
        row, _ = lines.position(span.end)
        while row < len(lines) - 1 and not lines.line(row + 1).strip():
            row += 1
            end = line_end(model, lines.offset(row, 1))
    return Edit(start, end, "")


def trailing_comment(model: FileModel, span: Span) -> str:
    """The comment behind `span` on its last line, with the white space before it; nothing if there is none."""
    rest = model.document.text[span.end : line_end(model, span.end)].rstrip()
    return rest if rest.lstrip().startswith("#") else ""


def reindented(text: str, old: str, new: str) -> str:
    """`text`, of a statement indented by `old`, with the lines after its first as they stand below one indented by
    `new`."""
    if old == new or '"""' in text or "'''" in text:
        return text
    first, *rest = text.splitlines(keepends=True)
    return first + "".join(new + line.removeprefix(old) if line.startswith(old) else line for line in rest)


def wrapped(model: FileModel, place: Place, before: str, after: str = ")") -> tuple[Edit, ...]:
    """Puts `before` and `after` around the expression at `place`; its own parentheses are kept only where they hold
    something that spans lines."""
    span, whole = place.span, place.whole
    if isinstance(place.node, (cst.Tuple, cst.GeneratorExp)):
        return (Edit(whole.start, whole.start, before), Edit(whole.end, whole.end, after))
    if span != whole and "\n" not in text_of(model, whole):
        return (Edit(whole.start, span.start, before), Edit(span.end, whole.end, after))
    return (Edit(whole.start, whole.start, before), Edit(whole.end, whole.end, after))


def argument_span(place: Place, call: cst.Call, position: int) -> Span:
    """The characters of an argument (0-based position), its keyword or star included, its comma left out."""
    argument = call.args[position]
    end = place.statement.whole_span(argument.value).end
    if argument.keyword is not None:
        return Span(place.statement.span(argument.keyword).start, end)
    return Span(place.statement.whole_span(argument.value).start - len(argument.star), end)


def needs_parentheses(node: cst.BaseExpression) -> bool:
    """Whether an expression must be put in parentheses before a method can be called on it."""
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.SimpleString)
    return not isinstance(node, atoms) and not getattr(node, "lpar", ())


def registered_containers(model: FileModel, holder: Container, names: tuple[str, str]) -> tuple[Edit, ...] | None:
    """Wraps the container `holder`, and those in it, in the registered kind of it: `names` are those for lists and
    for dicts, by full name. None where that would not work."""
    containers = [held for held in contents(holder) if isinstance(held, Container)]
    edits: list[Edit] = []
    for container in reversed(containers):
        if container.place is None or container.shape not in {Shape.LIST, Shape.TUPLE, Shape.DICT}:
            return None
        is_dict = container.shape is Shape.DICT
        if (is_dict and not all(may_be_key(key) for key in container.keys)) or container.holds_itself():
            return None
        spelling = model.names.spell(names[1] if is_dict else names[0])
        edits += [*spelling.edits, *_around_container(model, container, spelling.text)]
    return tuple(edits)


# What lists and dicts have and `nn.ModuleList`, `nn.ModuleDict`, `nn.ParameterList` or `nn.ParameterDict` lack.
_MISSING = {
    Shape.LIST: ("remove", "sort", "reverse", "index", "count", "copy"),
    Shape.TUPLE: ("index", "count"),
    Shape.DICT: ("get", "setdefault", "popitem", "copy", "fromkeys"),
    Shape.DEQUE: ("appendleft", "extendleft", "popleft", "rotate"),
}


def lacks_method(model: FileModel, stray: Stray) -> bool:
    """Whether the file uses the attribute in a way that the registered containers do not offer."""
    shape = stray.holder.shape if isinstance(stray.holder, Container) else Shape.LIST
    missing = "|".join(_MISSING.get(shape, ()))
    name = re.escape(stray.attribute.rpartition(".")[2])
    pattern = rf"\.{name}\.(?:(?:{missing})\(|update\(\s*\w+\s*=)" if missing else r"(?!)"
    return re.search(pattern, model.document.text) is not None


def is_made_by(expression: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Whether `node` is what an assignment's right-hand side makes: it, or a part of `[…] * n` or `[…] if c else d`."""
    if expression is node:
        return True
    if isinstance(expression, cst.IfExp):
        return node in {expression.body, expression.orelse}
    return isinstance(expression, cst.BinaryOperation) and node in {expression.left, expression.right}


def annotation_edits(model: FileModel, store: Store, holder: Container, names: tuple[str, str]) -> tuple[Edit, ...]:
    """Has the annotation of `self.x: List[nn.Module] = …` say what is assigned from now on."""
    node = store.statement.node
    if not isinstance(node, cst.AnnAssign):
        return ()
    span = store.statement.statement.whole_span(node.annotation.annotation)
    spelling = model.names.spell(names[1] if holder.shape is Shape.DICT else names[0])
    return (*spelling.edits, Edit(span.start, span.end, spelling.text))


def may_be_key(key: Value) -> bool:
    """Whether `nn.ModuleDict` takes this key, as far as is known: a string without dots that is no attribute yet."""
    if isinstance(key, Name):
        taken = (
            *torch_api.module_methods(),
            *torch_api.module_attributes(),
            "keys",
            "values",
            "items",
            "pop",
            "update",
        )
        return "." not in key.text and key.text not in taken
    return not isinstance(key, Scalar | Container)


def _around_container(model: FileModel, holder: Container, name: str) -> tuple[Edit, ...]:
    assert holder.place is not None
    node, place = holder.place.node, holder.place
    if isinstance(node, cst.List | cst.Dict) and not node.elements:
        span = place.whole
        return (Edit(span.start, span.end, f"{name}()"),)
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Name):
        return (Edit(place.whole.start, place.whole.end, f"{name}()"),)
    if isinstance(node, cst.Tuple):
        if node.lpar:
            closing = place.whole.end - 1
            comma = node.elements[-1].comma if len(node.elements) == 1 else None
            if isinstance(comma, cst.Comma):  # the comma that makes a tuple of one is none of a list's
                closing = place.statement.whole_span(node.elements[-1].value).end
            return (
                Edit(place.whole.start, place.whole.start + 1, f"{name}(["),
                Edit(closing, place.whole.end, "])"),
            )
        return (Edit(place.span.start, place.span.start, f"{name}(["), Edit(place.span.end, place.span.end, "])"))
    return wrapped(model, place, f"{name}(")
