"""Where a script can move a module: behind the statement that makes it, once its data's device is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from torchstray.rules.repairs import indentation, line_end, line_start, needs_parentheses, stands_alone, text_of
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Binding, FunctionNode, Unmoved
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import blocks, dotted, holds, walk
from torchstray.semantics.values import Place, Put
from torchstray.text.edits import Edit

_Lines = list[Place]
_Step = tuple[_Lines, int]
"""A statement, as its number in a block."""


@dataclass(frozen=True)
class Target:
    """A device, as the user has written it: `method` and its arguments' text, and the nodes of these arguments, as they
    are understood in `function`."""

    method: str
    text: str
    nodes: tuple[cst.BaseExpression, ...]
    function: FunctionNode

    def move(self, name: str) -> str:
        """The call that moves `name` there."""
        return f"{name}.{self.method}({self.text})"

    @property
    def shown(self) -> str:
        """The words for the device."""
        return f"`{self.text}`" if self.method == "to" else "the GPU"

    @property
    def names(self) -> set[str]:
        """The names that must be bound where the device is used."""
        return {name for node in self.nodes for name in names_in(node)}

    @property
    def paths(self) -> set[str]:
        """These names, with the attributes that are read of them."""
        return {path for node in self.nodes for found in walk(node) if (path := dotted(found)) is not None}


def data_target(model: FileModel, put: Put) -> Target | None:
    """The device that data has been moved to."""
    if put.test is not None:
        return Target("cuda", "", (put.test,), put.function)
    return target_of(model, put.place, put.function)


def target_of(model: FileModel, call: Place, function: FunctionNode) -> Target | None:
    """The device that a call moves something to, or makes it on."""
    node = call.node
    assert isinstance(node, cst.Call)
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    named = {argument.keyword.value: argument.value for argument in node.args if argument.keyword is not None}
    if method in {"cuda", "xpu", "mtia"}:
        given = [argument.value for argument in node.args if argument.keyword is None][:1]
        if "device" in named:
            given = [named["device"]]
        return _target(model, call, method, given, function)
    if "device" in named:
        return _target(model, call, "to", [named["device"]], function)
    if method == "to" and node.args and node.args[0].keyword is None and not node.args[0].star:
        return _target(model, call, "to", [node.args[0].value], function)
    return None


def _target(
    model: FileModel, call: Place, method: str, nodes: Sequence[cst.BaseExpression], function: FunctionNode
) -> Target:
    text = ", ".join(text_of(model, call.statement.whole_span(node)) for node in nodes)
    return Target(method, text, tuple(nodes), function)


def move_edits(model: FileModel, unmoved: Unmoved) -> tuple[Edit, ...] | None:
    """Moves an unmoved module in time; None where no place for it is found."""
    target = data_target(model, unmoved.put)
    if target is None:
        return None
    nearest = [unmoved.function, *(function for _, function in reversed(unmoved.stack))]
    order = {function: number for number, function in reversed(list(enumerate(nearest)))}
    named = unmoved.bindings if unmoved.choices == 1 else ()
    bindings = sorted(named, key=lambda binding: order.get(binding.function, len(nearest)))
    for binding in bindings:
        mapped = _as_seen_in(model, target, unmoved, binding.function)
        edit = _after_binding(model, binding, mapped, unmoved) if mapped is not None else None
        if edit is not None:
            return (edit,)
    mapped = _as_seen_in(model, target, unmoved, unmoved.function)
    if mapped is None:
        return None
    edit = _before_use(model, mapped, unmoved)
    if edit is not None:
        return (edit,)
    return _at_constructor(model, mapped, unmoved)


def _as_seen_in(model: FileModel, target: Target, unmoved: Unmoved, function: FunctionNode) -> Target | None:
    """The same device in another function: a parameter becomes the argument that was given for it."""
    if target.function is function:
        return target
    local = target.names & _locals(target.function) if target.function is not None else set()
    if not local or all(path.startswith("self.") for path in _longest(target.paths) if path.partition(".")[0] in local):
        return Target(target.method, target.text, target.nodes, function)
    frames = [*(known for _, known in unmoved.stack), unmoved.function]
    if target.function not in frames or len(target.nodes) != 1 or not isinstance(target.nodes[0], cst.Name):
        return None
    number = frames.index(target.function)
    if number == 0 or not isinstance(target.function, cst.FunctionDef):
        return None
    call, caller = unmoved.stack[number - 1]
    given = _given(call.node, target.function, target.nodes[0].value)
    if given is None:
        return None
    mapped = _target(model, call, target.method, [given], caller)
    return _as_seen_in(model, mapped, unmoved, function)


def _given(call: cst.CSTNode, function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """The argument of a call for the parameter of this name."""
    if not isinstance(call, cst.Call) or any(argument.star for argument in call.args):
        return None
    parameters = [parameter.name.value for parameter in function.params.params]
    if parameters[:1] == ["self"]:
        parameters = parameters[1:]
    positional = [argument.value for argument in call.args if argument.keyword is None]
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    return (dict(zip(parameters, positional, strict=False)) | named).get(name)


def _longest(paths: Iterable[str]) -> list[str]:
    """The paths that are no beginning of another."""
    known = list(paths)
    return [path for path in known if not any(other.startswith(path + ".") for other in known)]


def _locals(function: FunctionNode) -> set[str]:
    """The names that a function binds, its parameters included."""
    if function is None:
        return set()
    given = function.params
    names = {parameter.name.value for parameter in (*given.posonly_params, *given.params, *given.kwonly_params)}
    return names | {
        found.value
        for node in walk(function.body)
        for target in _targets(node)
        for found in walk(target)
        if isinstance(found, cst.Name)
    }


def _targets(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a statement assigns to."""
    if isinstance(node, cst.Assign):
        yield from (target.target for target in node.targets)
    elif isinstance(node, cst.AnnAssign | cst.AugAssign | cst.For | cst.CompFor | cst.NamedExpr):
        yield node.target
    elif isinstance(node, cst.AsName) and isinstance(node.name, cst.BaseExpression):
        yield node.name


def lines_of(model: FileModel, function: FunctionNode, within: Place) -> _Lines:
    """The statements of a function's body, or of the file; `within` is a place in it."""
    if function is None:
        return [Place(statement, line) for statement in model.document.statements for line in statement.tree.body]
    return (
        [Place(within.statement, line) for line in function.body.body] if isinstance(function, cst.FunctionDef) else []
    )


def path_to(lines: _Lines, node: cst.CSTNode) -> list[_Step]:
    """The statements that hold `node`, the outermost first, each with its block."""
    for number, line in enumerate(lines):
        if holds(line.node, node):
            for block in blocks(line.node):
                inner = [Place(line.statement, child) for child in block.body]
                if isinstance(block, cst.IndentedBlock) and any(holds(child.node, node) for child in inner):
                    return [(lines, number), *path_to(inner, node)]
            return [(lines, number)]
    return []


def _assignments(lines: _Lines, names: set[str]) -> Iterator[Place]:
    """The statements that bind one of these names, inner functions left out."""
    for line in lines:
        if isinstance(line.node, cst.FunctionDef | cst.ClassDef):
            continue
        for node in walk(line.node):
            for target in _targets(node):
                parts = [target] if not isinstance(target, cst.Tuple | cst.List) else [e.value for e in target.elements]
                if any(dotted(part) in names for part in parts):
                    yield Place(line.statement, node)


def _after_binding(model: FileModel, binding: Binding, target: Target, unmoved: Unmoved) -> Edit | None:
    """Moves the module right behind the statement that gives it a name, or behind the one that gives the device its."""
    statement = binding.statement
    if not isinstance(statement.node, cst.Assign | cst.AnnAssign):
        return None
    lines = lines_of(model, binding.function, statement)
    path = path_to(lines, statement.node)
    if not path:
        return None
    block, number = path[-1]
    use = _use_in(unmoved, binding.function)
    for bound in _assignments(lines, target.names | target.paths):
        if use is not None and bound.statement is use.statement and bound.span.start >= use.span.start:
            continue
        meeting = _meeting(path, path_to(lines, bound.node))
        if meeting is None or isinstance(bound.node, cst.For | cst.AsName):
            return None
        shared, ours, theirs = meeting
        if theirs == ours and bound.node is not statement.node:
            return None
        if theirs > ours:
            if shared is not block:
                return None
            number = max(number, theirs)
    if not _is_known(model, target, binding.function, lines):
        return None
    if use is not None:
        meeting = _meeting(path, path_to(lines, use.node))
        if meeting is None:
            return None
        shared, ours, theirs = meeting
        if theirs <= (number if shared is block else ours):
            return None
    line = block[number]
    return _insertion(model, line, _statement(model, binding.name, target, unmoved.put, binding.function, line))


def _meeting(one: list[_Step], other: list[_Step]) -> tuple[_Lines, int, int] | None:
    """The innermost block that two statements share, with their numbers in it; None where the second is in a block that
    may not run before the first goes on."""
    shared: tuple[_Lines, int, int] | None = None
    for (lines, first), (others, second) in zip(one, other, strict=False):
        if lines[0].node is not others[0].node:
            break
        shared = (lines, first, second)
        if first != second:
            break
    return shared


def _is_known(model: FileModel, target: Target, function: FunctionNode, lines: _Lines) -> bool:
    """Whether the names of a device are bound in the function, handed in, or bound in the file."""
    for path in _longest(target.paths):
        head = path.partition(".")[0]
        if head == "self" and path != "self":
            if any(_assignments(lines, {path})):
                continue
            first = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
            if first or not any(path in _attributes_set(cls.node) for cls in model.classes if _has(cls.node, function)):
                return False
    return True


def _has(cls: cst.ClassDef, function: FunctionNode) -> bool:
    return function is not None and any(node is function for node in cls.body.body)


def _attributes_set(node: cst.CSTNode) -> set[str]:
    return {name for found in walk(node) for target in _targets(found) if (name := dotted(target)) is not None}


def _use_in(unmoved: Unmoved, function: FunctionNode) -> Place | None:
    """The first call in this function that leads to the failure."""
    for call, known in unmoved.stack:
        if known is function:
            return call
    return unmoved.call if unmoved.function is function else None


def _statement(model: FileModel, name: str, target: Target, put: Put, function: FunctionNode, line: Place) -> list[str]:
    """The lines that move `name`, under the same tests as its data where without them there would be no device."""
    move = target.move(name)
    if target.method == "to" and not all(isinstance(node, cst.SimpleString) for node in target.nodes):
        return [move]
    tests = [] if put.test is None else [cst.Module([]).code_for_node(put.test)]
    if put.function is not function:
        return [f"if {tests[0]}:", f"    {move}"] if tests else [move]
    for guard, outcome in put.guards:
        if not holds(guard, line.node):
            text = text_of(model, put.place.statement.span(guard.test))
            tests.append(text if outcome else f"not ({text})")
    tests = list(dict.fromkeys(tests))
    return [f"if {' and '.join(tests)}:", f"    {move}"] if tests else [move]


def _insertion(model: FileModel, line: Place, added: list[str]) -> Edit | None:
    """Adds lines behind a statement."""
    last = last_offset(line)
    if not stands_alone(model, line.span) and isinstance(line.node, cst.SimpleStatementLine):
        return None
    end = line_end(model, last)
    indent = indentation(model, line.span.start)
    newline = "" if model.document.text[:end].endswith(("\n", "\r")) else "\n"
    return Edit(end, end, newline + "".join(f"{indent}{one}\n" for one in added))


def last_offset(line: Place) -> int:
    """The offset behind a statement's own text, comments and blank lines after it left out."""
    node = line.node
    while not isinstance(node, cst.SimpleStatementLine):
        inner = [child for suite in _suites(node) for child in suite.body]
        if not inner:
            break
        node = inner[-1]
    return line.statement.span(node).end


def _suites(node: cst.CSTNode) -> list[cst.BaseSuite]:
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        return [node.body]
    return list(blocks(node))


def _before_use(model: FileModel, target: Target, unmoved: Unmoved) -> Edit | None:
    """Moves the module before the outermost statement that uses it and in which its name and the device are known."""
    name = unmoved.name
    if name is None:
        return None
    lines = lines_of(model, unmoved.function, unmoved.call)
    names = target.names | target.paths | {name, name.partition(".")[0]}
    bound = [path_to(lines, place.node) for place in _assignments(lines, names)]
    path = path_to(lines, unmoved.call.node)
    if not _is_known(model, target, unmoved.function, lines):
        return None
    for block, number in path:
        line = block[number]
        if any(_same_step(steps, block, number) for steps in bound):
            continue
        start = line_start(model, line.span.start)
        indent = indentation(model, line.span.start)
        added = _statement(model, name, target, unmoved.put, unmoved.function, line)
        return Edit(start, start, "".join(f"{indent}{one}\n" for one in added))
    return None


def _same_step(steps: list[_Step], block: _Lines, number: int) -> bool:
    """Whether a statement is `block[number]`, in it, or behind it."""
    return any(lines[0].node is block[0].node and at >= number for lines, at in steps)


def _at_constructor(model: FileModel, target: Target, unmoved: Unmoved) -> tuple[Edit, ...] | None:
    """Moves the module where it is made."""
    place = unmoved.culprit.place
    if place is None or not isinstance(place.node, cst.Call):
        return None
    lines = lines_of(model, unmoved.function, place)
    path = path_to(lines, place.node)
    if not path or isinstance(path[-1][0][path[-1][1]].node, cst.FunctionDef | cst.ClassDef):
        return None
    for bound in _assignments(lines, target.names | target.paths):
        meeting = _meeting(path, path_to(lines, bound.node))
        if meeting is None or meeting[2] >= meeting[1]:
            return None
    return moved_expression(model, place, target)


def moved_expression(model: FileModel, place: Place, target: Target) -> tuple[Edit, ...]:
    """Moves what an expression gives."""
    end = place.whole.end
    if isinstance(place.node, cst.BaseExpression) and needs_parentheses(place.node):
        start = place.whole.start
        return (Edit(start, start, "("), Edit(end, end, target.move(")")))
    return (Edit(end, end, target.move("")),)
