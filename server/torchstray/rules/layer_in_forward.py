"""Layers and parameters that are made anew in every forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchstray.rules.moving import end_of_state, free_attribute
from torchstray.rules.repairs import (
    argument_span,
    delete_lines,
    indentation,
    reindented,
    stands_alone,
    text_of,
    trailing_comment,
)
from torchstray.rules.rule import Finding, Fix, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Built, ClassFacts, Phase, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import Spelling, dotted
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import ModuleInstance, Parameter, Place, Tensor, options_of
from torchstray.text.edits import Edit, Span


class LayerInForward(Rule):
    """TODO"""

    name = "layer-in-forward"
    summary = "a layer or parameter is built anew in every forward pass"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for built in facts.built:
                state = _state(built)
                if state is not None and state.any:
                    yield self._finding(model, facts, built, state)

    def _finding(self, model: FileModel, facts: ClassFacts, built: Built, state: State) -> Finding:
        place = built.value.place
        assert place is not None
        name = _shown(model, place)
        grave = state.parameters or state.buffers
        store = _store_of(facts, built)
        lazily = built.lazily and store is not None
        if lazily:
            attribute = f"`self.{store.attribute}`" if store is not None else "It"
            message = (
                f"{attribute} is built on the first call of `forward`, so an optimizer made before misses it and a checkpoint "
                f"cannot be loaded into it; build it in `__init__`{_lazily_possible(built)}."
            )
        elif isinstance(built.value, Parameter):
            message = (
                f"This `{name}` is made anew in every `forward`, so no optimizer has it and nothing saves it; make it in "
                "`__init__`."
            )
        elif grave:
            what = "fresh weights" if state.parameters else "fresh state"
            what += "" if _is_placed(built) else " on the CPU"
            what += " that are never trained or saved" if state.parameters else " that is never kept or saved"
            message = f"This `{name}` is built anew in every `forward`, with {what}; build it in `__init__`."
        else:
            message = (
                f"This `{name}` is built anew in every `forward` and always in training mode, so `eval()` never reaches it; "
                "build it in `__init__`."
            )
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if lazily or not grave else Severity.ERROR,
            message=message,
            span=place.span,
            fixes=tuple(_fixes(model, facts, built, state)),
            subject=place.node,
        )


def _state(built: Built) -> State | None:
    """What of the thing made stays out of reach; None where it is part of another that is made here too."""
    if isinstance(built.value, Parameter):
        return None if built.value.buffer else State(parameters=True, buffers=False, mode=False)
    if built.value.inner:
        return None
    return built.value.whole_state()


def _lazily_possible(built: Built) -> str:
    """A hint at the lazy kind of a layer, where torch has one."""
    module, _, last = built.value.name.rpartition(".") if isinstance(built.value, ModuleInstance) else ("", "", "")
    known = torch_api.module_class(f"torch.{module}.Lazy{last}")
    return f", as `{module}.Lazy{last}`" if known is not None else ""


def _is_placed(built: Built) -> bool:
    """Whether the layer is put on a device where it is built."""
    call = built.value.place.node if built.value.place is not None else None
    given = isinstance(call, cst.Call) and any(
        argument.keyword is not None and argument.keyword.value == "device" for argument in call.args
    )
    if given or built.function is None or call is None or built.value.place is None:
        return given
    return _whole(built.value.place, built.function.node).node is not call


def _shown(model: FileModel, place: Place) -> str:
    node = place.node
    return text_of(model, place.statement.span(node.func)) if isinstance(node, cst.Call) else "layer"


def _store_of(facts: ClassFacts, built: Built) -> Store | None:
    return next(
        (store for store in facts.stores if store.phase is Phase.FORWARD and built.value in options_of(store.value)),
        None,
    )


def _fixes(model: FileModel, facts: ClassFacts, built: Built, state: State) -> Iterable[Fix]:
    cls, function, place = facts.cls, built.function, built.value.place
    if place is None or function is None or function.owner is not cls or built.in_loop:
        return
    method = function.node
    if not isinstance(method, cst.FunctionDef) or method not in cls.methods.values():
        return
    moved = _moved(model, facts, built, place, method)
    replaced = _replaced(model, facts, built, place, method)
    insertion = end_of_state(model, cls)
    if moved is None or replaced is None or insertion is None:
        return
    grave = state.parameters or state.buffers
    gain = "it is trained, moved and saved, and `state_dict()` gets new keys" if grave else "`eval()` reaches it"
    how = ", as a lazy layer that takes its size from the first input" if moved.lazy else ""
    made = reindented(moved.text, indentation(model, place.span.start), insertion.indent)
    line = f"self.{replaced.attribute} = {made}{replaced.comment}"
    yield Fix(
        f"Build it once, in `__init__`{how}: {gain}", False, (*moved.imports, *replaced.edits, insertion.edit([line]))
    )


@dataclass(frozen=True)
class _Replaced:
    """How the method does without building the layer: it uses `self.attribute`."""

    attribute: str
    edits: tuple[Edit, ...]
    comment: str = ""


def _replaced(
    model: FileModel, facts: ClassFacts, built: Built, place: Place, method: cst.FunctionDef
) -> _Replaced | None:
    """What changes in the method; None where the layer cannot be taken out of it."""
    whole = _whole(place, method)
    assignment = _assignment(method, whole.node)
    taken = {store.attribute for store in facts.stores} | set(facts.registered) | set(_self_attributes(facts.cls.node))
    if assignment is None:
        if built.lazily:
            return None
        attribute = free_attribute(facts.cls, taken, _attribute_name(built))
        return _Replaced(attribute, (Edit(whole.whole.start, whole.whole.end, f"self.{attribute}"),))
    target = assignment.targets[0].target
    span = place.statement.span(assignment)
    comment = trailing_comment(model, span)
    if not stands_alone(model, span):
        return None
    if isinstance(target, cst.Name):
        if built.lazily or _is_alone(method, assignment) or not _bound_once(method, target.value):
            return None
        attribute = free_attribute(facts.cls, taken, target.value)
        uses = [place.statement.span(node) for node in _names(method.body, target.value) if node is not target]
        edits = [Edit(use.start, use.end, f"self.{attribute}") for use in uses]
        return _Replaced(attribute, (*edits, delete_lines(model, span)), comment)
    if not (isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)):
        return None
    attribute = target.attr.value
    if built.lazily:
        guard = _guard(method, assignment)
        if guard is None:
            return None
        return _Replaced(attribute, (delete_lines(model, Span(place.statement.span(guard).start, span.end)),), comment)
    if attribute in facts.live or attribute in facts.registered or _is_alone(method, assignment):
        return None
    return _Replaced(attribute, (delete_lines(model, span),), comment)


def _bound_once(method: cst.FunctionDef, name: str) -> bool:
    """Whether one assignment is all that binds a local name."""
    if any(parameter.name.value == name for parameter in method.params.params):
        return False
    return sum(found == name for node in _walk(method.body) for found in _bound(node)) == 1


def _guard(method: cst.FunctionDef, assignment: cst.Assign) -> cst.If | None:
    """The `if`, one of several statements of its block, that does nothing but this assignment."""
    for block in _walk(method.body):
        if not isinstance(block, cst.IndentedBlock) or len(block.body) < 2:
            continue
        for node in block.body:
            if isinstance(node, cst.If) and node.orelse is None and len(node.body.body) == 1:
                line = node.body.body[0]
                if isinstance(line, cst.SimpleStatementLine) and list(line.body) == [assignment]:
                    return node
    return None


@dataclass(frozen=True)
class _Moved:
    """The expression that builds the layer, as it can stand in `__init__`, and the imports that it needs."""

    text: str
    imports: tuple[Edit, ...] = ()
    lazy: bool = False


def _moved(model: FileModel, facts: ClassFacts, built: Built, place: Place, method: cst.FunctionDef) -> _Moved | None:
    """The call for `__init__`; None where its arguments are only known in `forward`. A device is left out: the module moves."""
    call = place.node
    if not isinstance(call, cst.Call):
        return None
    local = _local_names(method)
    unknown = [argument for argument in call.args if not _known_in_init(argument.value, facts, local)]
    devices = [argument for argument in unknown if argument.keyword is not None and argument.keyword.value == "device"]
    unknown = [argument for argument in unknown if argument not in devices]
    if not unknown and not devices:
        return _Moved(text_of(model, place.span))
    kept = [argument for argument in call.args if argument not in devices and argument not in unknown]
    arguments = ", ".join(
        text_of(model, argument_span(place, call, position))
        for position, argument in enumerate(call.args)
        if argument in kept
    )
    if not unknown:
        return _Moved(f"{text_of(model, place.statement.span(call.func))}({arguments})")
    spelling = _lazy_class(model, built, call, unknown)
    return None if spelling is None else _Moved(f"{spelling.text}({arguments})", spelling.edits, lazy=True)


def _lazy_class(model: FileModel, built: Built, call: cst.Call, unknown: list[cst.Arg]) -> Spelling | None:
    """The `Lazy…` layer that takes the one size which only `forward` knows from its first input."""
    if not isinstance(built.value, ModuleInstance) or built.value.cls is not None:
        return None
    name = f"torch.{built.value.name}"
    module, _, last = name.rpartition(".")
    eager, lazy = torch_api.module_class(name), torch_api.module_class(f"{module}.Lazy{last}")
    if eager is None or lazy is None or len(unknown) != 1:
        return None
    missing = [argument for argument in eager.arguments if argument not in lazy.arguments]
    argument = unknown[0]
    position = call.args.index(argument)
    keyword = argument.keyword.value if argument.keyword is not None else eager.arguments[position]
    return model.names.spell(f"{module}.Lazy{last}") if missing == [keyword] else None


def _known_in_init(node: cst.CSTNode, facts: ClassFacts, local: set[str]) -> bool:
    """Whether an expression means in `__init__` what it means in the method: constants, file-level names, attributes set there."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        changed = any(store.attribute == node.attr.value and store.phase is not Phase.INIT for store in facts.stores)
        kept = [option for store in facts.live.get(node.attr.value, ()) for option in options_of(store.value)]
        return bool(kept) and not changed and not any(isinstance(value, Parameter | Tensor) for value in kept)
    if isinstance(node, cst.Name):
        return node.value not in local
    if isinstance(node, cst.Attribute):
        return _known_in_init(node.value, facts, local)
    if isinstance(node, cst.Arg):
        return _known_in_init(node.value, facts, local)
    if isinstance(node, cst.NamedExpr | cst.Await | cst.Yield):
        return False
    return all(_known_in_init(child, facts, local) for child in node.children)


def _local_names(method: cst.FunctionDef) -> set[str]:
    """The names that only the method knows: its parameters and what it binds."""
    parameters = method.params
    every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
    names = {parameter.name.value for parameter in every}
    if isinstance(parameters.star_arg, cst.Param):
        names.add(parameters.star_arg.name.value)
    if parameters.star_kwarg is not None:
        names.add(parameters.star_kwarg.name.value)
    for node in _walk(method.body):
        names |= set(_bound(node))
    return names


def _bound(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor):
        target = node.target
        if not isinstance(target, cst.Attribute | cst.Subscript):
            yield from names_in(target)
    elif isinstance(node, cst.AsName):
        yield from names_in(node.name)
    elif isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name.value
    elif isinstance(node, cst.ImportAlias):
        yield (dotted(node.asname.name if node.asname is not None else node.name) or "").partition(".")[0]


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _names(node: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """The places in `node` where the plain name is read or bound."""
    if isinstance(node, cst.Name):
        if node.value == name:
            yield node
    elif isinstance(node, cst.Attribute | cst.Arg):
        yield from _names(node.value, name)
    else:
        for child in node.children:
            yield from _names(child, name)


def _self_attributes(node: cst.CSTNode) -> Iterator[str]:
    for found in _walk(node):
        if isinstance(found, cst.Attribute) and isinstance(found.value, cst.Name) and found.value.value == "self":
            yield found.attr.value


def _whole(place: Place, method: cst.FunctionDef | cst.Lambda) -> Place:
    """The call at `place` with the moves behind it: `nn.Linear(3, 3).cuda()`."""
    node = place.node
    parents = {child: parent for parent in _walk(method.body) for child in parent.children}
    while True:
        attribute = parents.get(node)
        call = parents.get(attribute) if attribute is not None else None
        if not (isinstance(attribute, cst.Attribute) and attribute.value is node and isinstance(call, cst.Call)):
            return Place(place.statement, node)
        known = torch_api.module_method(attribute.attr.value)
        if call.func is not attribute or known is None or not known.moves:
            return Place(place.statement, node)
        node = call


def _assignment(method: cst.FunctionDef, node: cst.CSTNode) -> cst.Assign | None:
    """The assignment with one target whose right-hand side is `node`."""
    for found in _walk(method.body):
        if isinstance(found, cst.Assign) and found.value is node and len(found.targets) == 1:
            return found
    return None


def _is_alone(method: cst.FunctionDef, assignment: cst.Assign) -> bool:
    """Whether the assignment is the only statement of its block, so that its line cannot go."""
    for node in _walk(method.body):
        if isinstance(node, cst.IndentedBlock) and len(node.body) == 1:
            line = node.body[0]
            if isinstance(line, cst.SimpleStatementLine) and assignment in line.body:
                return True
    return False


def _attribute_name(built: Built) -> str:
    """A name for an attribute that holds the layer: `nn.BatchNorm1d` gives `batch_norm`."""
    if isinstance(built.value, Parameter):
        return "weight"
    last = built.value.name.rpartition(".")[2]
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last).lower()
    return re.sub(r"_?\d+d$", "", snake) or "layer"
