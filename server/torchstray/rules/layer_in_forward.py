"""Layers and parameters that are made anew in every forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.moving import end_of_state, free_attribute
from torchstray.rules.repairs import delete_lines, stands_alone, text_of
from torchstray.rules.rule import Finding, Fix, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Built, ClassFacts, Phase, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import ModuleInstance, Parameter, Place, options_of
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
                "cannot be loaded into it; build it in `__init__`."
            )
        elif isinstance(built.value, Parameter):
            message = f"This `{name}` is made anew in every `forward`, so no optimizer has it and nothing saves it; make it in `__init__`."
        elif grave:
            what = (
                "random weights on the CPU that are never trained or saved"
                if state.parameters
                else "fresh state on the CPU that is never kept or saved"
            )
            message = f"This `{name}` is built anew in every `forward`, with {what}; build it in `__init__`."
        else:
            message = f"This `{name}` is built anew in every `forward` and always in training mode, so `eval()` never reaches it; build it in `__init__`."
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


def _shown(model: FileModel, place: Place) -> str:
    node = place.node
    return text_of(model, place.statement.span(node.func)) if isinstance(node, cst.Call) else "layer"


def _store_of(facts: ClassFacts, built: Built) -> Store | None:
    return next(
        (store for store in facts.stores if store.phase is Phase.FORWARD and built.value in options_of(store.value)),
        None,
    )


def _fixes(model: FileModel, facts: ClassFacts, built: Built, state: State) -> Iterable[Fix]:
    cls, function = facts.cls, built.function
    place = built.value.place
    if place is None or function is None or function.owner is not cls or built.in_loop or built.lazily:
        return
    method = function.node
    if not isinstance(method, cst.FunctionDef) or method not in cls.methods.values():
        return
    moved = _moved(model, facts, built, place, method)
    insertion = end_of_state(model, cls)
    if moved is None or insertion is None:
        return
    made, imports = moved
    grave = state.parameters or state.buffers
    consequence = "it is trained, moved and saved, and `state_dict()` gets new keys" if grave else "`eval()` reaches it"
    title = f"Build it once, in `__init__`: {consequence}"
    if made.startswith(("nn.Lazy", "Lazy", "torch.nn.Lazy")) or ".Lazy" in made.partition("(")[0]:
        title = f"Build it once, in `__init__`, as a lazy layer that takes its size from the first input: {consequence}"
    whole = _whole(place, method)
    assignment = _assignment(method, whole.node)
    taken = {store.attribute for store in facts.stores} | set(facts.registered) | set(_self_attributes(cls.node))
    if assignment is None:
        attribute = free_attribute(cls, taken, _attribute_name(built))
        edits = [Edit(whole.whole.start, whole.whole.end, f"self.{attribute}")]
    else:
        target = assignment.targets[0].target
        span = place.statement.span(assignment)
        if not stands_alone(model, span):
            return
        if isinstance(target, cst.Name):
            attribute = free_attribute(cls, taken, target.value)
            others = list(_names(method.body, target.value))
            if sum(_binds(node, target.value) for node in _walk(method.body)) != 1 or any(
                parameter.name.value == target.value for parameter in method.params.params
            ):
                return
            edits = [
                Edit(at.start, at.end, f"self.{attribute}")
                for at in (place.statement.span(node) for node in others if node is not target)
            ]
        elif isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name):
            attribute = target.attr.value
            edits = []
            if attribute in facts.live or attribute in facts.registered:
                return
        else:
            return
        edits.append(delete_lines(model, span))
        if _is_alone(method, assignment):
            return
    yield Fix(title, False, (*imports, *edits, insertion.edit([f"self.{attribute} = {made}"])))


def _moved(
    model: FileModel, facts: ClassFacts, built: Built, place: Place, method: cst.FunctionDef
) -> tuple[str, tuple[Edit, ...]] | None:
    """The call as it can stand in `__init__`, with the imports it needs; None where its arguments are only known in `forward`."""
    call = place.node
    if not isinstance(call, cst.Call):
        return None
    local = _local_names(method)
    unknown = [argument for argument in call.args if not _known_in_init(argument.value, facts, local)]
    if not unknown:
        return text_of(model, place.span), ()
    return _lazy(model, built, place, call, unknown)


def _lazy(
    model: FileModel, built: Built, place: Place, call: cst.Call, unknown: list[cst.Arg]
) -> tuple[str, tuple[Edit, ...]] | None:
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
    if missing != [keyword]:
        return None
    spelling = model.names.spell(f"{module}.Lazy{last}")
    rest = ", ".join(
        text_of(model, Span(place.statement.span(other).start, place.statement.whole_span(other.value).end))
        for other in call.args
        if other is not argument
    )
    return f"{spelling.text}({rest})", spelling.edits


def _known_in_init(node: cst.CSTNode, facts: ClassFacts, local: set[str]) -> bool:
    """Whether an expression means in `__init__` what it means in the method: constants, file-level names, attributes set there."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        changed = any(store.attribute == node.attr.value and store.phase is not Phase.INIT for store in facts.stores)
        return node.attr.value in facts.live and not changed
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


def _binds(node: cst.CSTNode, name: str) -> int:
    return sum(found == name for found in _bound(node))


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


def _whole(place: Place, method: cst.FunctionDef) -> Place:
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
