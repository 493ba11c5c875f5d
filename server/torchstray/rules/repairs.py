"""Building blocks of repairs: what stands where in the text, and edits that change it as its author would."""

from __future__ import annotations

import libcst as cst

from torchstray.semantics.facts import Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.values import Container, Name, Place, Scalar, Shape, Value, options_of
from torchstray.text.edits import Edit, Span


def text_of(model: FileModel, span: Span) -> str:
    """The characters of `span`."""
    return model.document.text[span.start : span.end]


def shown_attribute(model: FileModel, store: Store) -> str:
    """`self.name`, with the parts of a name that are made at run time as the user wrote them."""
    name = store.attribute
    node = store.statement.node
    if "{}" in name and isinstance(node, cst.Call):
        written = [argument.value for argument in node.args if isinstance(argument.value, cst.FormattedString)]
        if written:
            text = text_of(model, store.statement.statement.span(written[0]))
            name = text.lstrip("fFrR").strip("\"'")
    return f"self.{name}"


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
    """Removes all lines of `span`, comments behind it included."""
    return Edit(line_start(model, span.start), line_end(model, span.end), "")


def wrapped(model: FileModel, place: Place, before: str, after: str = ")") -> tuple[Edit, ...]:
    """Puts `before` and `after` around the expression at `place`; its own parentheses are kept only where they hold
    something that spans lines."""
    span, whole = place.span, place.whole
    if isinstance(place.node, (cst.Tuple, cst.GeneratorExp)):
        return (Edit(whole.start, whole.start, before), Edit(whole.end, whole.end, after))
    if span != whole and "\n" not in text_of(model, whole):
        return (Edit(whole.start, span.start, before), Edit(span.end, whole.end, after))
    return (Edit(whole.start, whole.start, before), Edit(whole.end, whole.end, after))


def needs_parentheses(node: cst.BaseExpression) -> bool:
    """Whether an expression must be put in parentheses before a method can be called on it."""
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.SimpleString)
    return not isinstance(node, atoms) and not getattr(node, "lpar", ())


def registered_containers(model: FileModel, holder: Value, names: tuple[str, str]) -> tuple[Edit, ...] | None:
    """Wraps the container `holder`, and those in it, in the registered kind of it: `names` are those for lists and for dicts,
    by full name. None where that would not work."""
    if not isinstance(holder, Container) or holder.place is None or holder.shape in {Shape.DEQUE, Shape.SET}:
        return None
    edits: list[Edit] = []
    for item in holder.items:
        for option in options_of(item):
            if isinstance(option, Container):
                inner = registered_containers(model, option, names)
                if inner is None:
                    return None
                edits += inner
    if holder.shape is Shape.DICT and not all(_may_be_key(key) for key in holder.keys):
        return None
    spelling = model.names.spell(names[1] if holder.shape is Shape.DICT else names[0])
    return (*edits, *spelling.edits, *_around_container(model, holder, spelling.text))


def _may_be_key(key: Value) -> bool:
    if isinstance(key, Name):
        return "." not in key.text
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
