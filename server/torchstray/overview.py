"""What a module class registers, and what it merely holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchstray.rules.repairs import shown_attribute, shown_name, text_of
from torchstray.semantics import torch_api
from torchstray.semantics.facts import ClassFacts, ClassState, Phase
from torchstray.semantics.model import FileModel
from torchstray.semantics.project import Project
from torchstray.semantics.strays import Kind, Stray, lasting, strays
from torchstray.semantics.values import (
    NONE,
    Container,
    Distribution,
    Instance,
    ModuleInstance,
    Parameter,
    Place,
    Shape,
    Tensor,
    Value,
    contents,
    options_of,
)
from torchstray.syntax.document import Document
from torchstray.text.edits import Span


@dataclass(frozen=True)
class Held:
    """One attribute of a module: its `name` without `self.`, `what` it is in plain words (a layer by the name of its
    class, as the file writes it), and the `row`, from 1, of the statement that sets it."""

    name: str
    what: str
    row: int


@dataclass(frozen=True)
class ClassOverview:
    """What an instance of a module class holds, base classes that can be seen included, in the order of the source:
    what one in another file adds stands where this class calls it, or at its name.

    `name_span` is where its name is in the `class` statement, `span` the whole statement. `unregistered` are the
    tensors, parameters and layers that it holds and does not register, `unknown` what may be a layer for all that can
    be seen from here. Not `complete`: there may be more, since there are some of these, or a base class cannot be seen.
    """

    name: str
    name_span: Span
    span: Span
    parameters: tuple[Held, ...]
    buffers: tuple[Held, ...]
    modules: tuple[Held, ...]
    unregistered: tuple[Held, ...]
    complete: bool
    unknown: tuple[Held, ...] = ()


@dataclass(frozen=True)
class _Found:
    name: str
    what: str
    place: Place


def overviews(document: Document, project: Project, path: Path | None = None) -> list[ClassOverview]:
    """Return an overview of each module class, in the order of the file, which lies at `path`."""
    model = FileModel(document, project, path)
    return sorted((_overview(model, facts) for facts in model.modules), key=lambda overview: overview.span)


def _overview(model: FileModel, facts: ClassFacts) -> ClassOverview:
    cls = facts.cls
    registered: dict[str, list[_Found]] = {"parameter": [], "buffer": [], "module": []}
    for kind, found in _registered(model, facts):
        registered[kind].append(found)
    unknown = [_Found(_name(shown_attribute(model, store)), "unknown", store.target) for store in facts.unseen]
    known = {found.name for group in registered.values() for found in group}
    return ClassOverview(
        name=cls.name,
        name_span=cls.statement.span(cls.node.name),
        span=cls.place.span,
        parameters=_held(model, registered["parameter"]),
        buffers=_held(model, registered["buffer"]),
        modules=_held(model, registered["module"], {found.name for found in unknown}),
        unregistered=_held(model, _unregistered(model, facts)),
        complete=cls.shows_everything and not unknown,
        unknown=_held(model, [found for found in unknown if found.name not in known]),
    )


def _held(model: FileModel, found: Iterable[_Found], unsure: Collection[str] = ()) -> tuple[Held, ...]:
    """One entry for each attribute, at its first place, with all that it may be; those `unsure` may be another thing,
    too."""
    attributes: dict[str, list[_Found]] = {}
    for one in sorted(found, key=lambda one: one.place.span):
        attributes.setdefault(one.name, []).append(one)
    held = []
    for name, all_of_it in attributes.items():
        whats = dict.fromkeys([one.what for one in all_of_it] + ["another"] * (name in unsure))
        row, _ = model.document.lines.position(all_of_it[0].place.span.start)
        held.append(Held(name, " or ".join(whats), row))
    return tuple(held)


def _registered(model: FileModel, facts: ClassFacts) -> Iterator[tuple[str, _Found]]:
    """What moves with the module, each with its kind: `parameter`, `buffer` or `module`."""
    lost = {attribute for emptied in facts.emptied for attribute in emptied.lost}
    for call in facts.registrations:
        if call.attribute in lost or (call.kind != "buffer" and call.value == NONE):
            continue  # None only takes the name, but as a buffer it takes the tensor that is assigned later, too
        name = _name(shown_name(model, call.place, call.attribute))
        for what in _layers(model, call.value) if call.kind == "module" else [call.kind]:
            yield call.kind, _Found(name, what, call.place)
    for store in lasting(facts):
        if store.attribute in lost:
            continue
        name = _name(shown_attribute(model, store))
        for option in options_of(store.value):
            if isinstance(option, ModuleInstance):
                yield "module", _Found(name, _class_name(model, option), store.target)
            elif isinstance(option, Parameter) and option.buffer:
                yield "buffer", _Found(name, "buffer", store.target)
            elif isinstance(option, Parameter) or (isinstance(option, Tensor) and option.alias == "parameter"):
                yield "parameter", _Found(name, "parameter", store.target)


def _layers(model: FileModel, value: Value) -> list[str]:
    known = [option for option in options_of(value) if isinstance(option, ModuleInstance)]
    return [_class_name(model, module) for module in known] or ["layer"]


def _unregistered(model: FileModel, facts: ClassFacts) -> Iterator[_Found]:
    """What stays behind: what instances keep, and what belongs to the class and its bases."""
    for stray in strays(facts, everywhere=True):
        if not _is_activation(stray):
            name = _name(shown_attribute(model, stray.store))
            yield _Found(name, _stray_in_words(model, stray), stray.store.target)
    for cls in facts.cls.own_classes:
        for state in model.facts(cls).class_state if cls.is_module else ():
            what = _class_state_in_words(model, state)
            if what is not None and state.attribute not in facts.live and state.attribute not in facts.registered:
                yield _Found(state.attribute, f"{what} of the class", state.target)


def _is_activation(stray: Stray) -> bool:
    """Whether `forward` puts a tensor of its own in the place of this one before it is used."""
    overwritten = any(store.phase is Phase.FORWARD for store in stray.later)
    return stray.kind is Kind.TENSOR and overwritten and stray.failing is None


_NOUNS = {
    Kind.MODULE: "layers",
    Kind.PARAMETER: "parameters",
    Kind.COMPUTED: "tensors computed from parameters",
    Kind.TENSOR: "tensors",
}
_TENSORS = {
    Kind.PARAMETER: "plain tensor with a gradient",
    Kind.COMPUTED: "tensor computed from a parameter",
    Kind.TENSOR: "plain tensor",
}


def _stray_in_words(model: FileModel, stray: Stray) -> str:
    if isinstance(stray.holder, Tensor):
        return _TENSORS[stray.kind]
    return _holder_in_words(model, stray.holder, _NOUNS[stray.kind])


def _holder_in_words(model: FileModel, holder: Value, noun: str) -> str:
    if isinstance(holder, Container):
        shape = "namespace" if holder.shape is Shape.OBJECT else holder.shape.value
        return f"{shape} of {noun}"
    if isinstance(holder, Instance):
        return f"object of {holder.cls.name} with {noun}"
    if isinstance(holder, Distribution):
        return _class_name(model, holder)
    return f"function that holds {noun}"


def _class_state_in_words(model: FileModel, state: ClassState) -> str | None:
    """What a class attribute is; None where nothing of it can stay behind."""
    for option in options_of(state.value):
        inside = list(contents(option))
        layers = [held for held in inside if isinstance(held, ModuleInstance) and _has_state(held)]
        parameters = [held for held in inside if isinstance(held, Parameter)]
        tensors = [held for held in inside if isinstance(held, Tensor) and not held.chosen]
        if option in layers:
            return _class_name(model, layers[0])
        if option in parameters:
            return "parameter"
        if option in tensors:
            return _TENSORS[Kind.TENSOR]
        for held, kind in ((layers, Kind.MODULE), (parameters, Kind.PARAMETER), (tensors, Kind.TENSOR)):
            if held:
                return _holder_in_words(model, option, _NOUNS[kind])
    return None


def _has_state(module: ModuleInstance) -> bool:
    state = module.whole_state()
    return state is not None and state.any


def _name(shown: str) -> str:
    return shown.removeprefix("self.")


_CALLED = re.compile(r"[\w.]+(?=[ \t]*\()")


def _class_name(model: FileModel, value: ModuleInstance | Distribution) -> str:
    """The name of an object's class as it is written where the object is made, or else as the file would write it."""
    full = value.name if value.name.startswith("torch.") else f"torch.{value.name}"
    if torch_api.module_class(full) is None and torch_api.kind(full) != "distribution":
        return value.name
    called = _CALLED.match(text_of(model, value.place.span)) if value.place is not None else None
    if called is not None:
        head, _, rest = called[0].partition(".")
        known = model.names.qualified(head)
        if known is not None and torch_api.canonical(f"{known}.{rest}" if rest else known) == full:
            return called[0]
    return model.names.spell(full).text


_MOST = 5
"""So many attributes of a kind are shown: a few are read, many are not."""


def markdown(overview: ClassOverview) -> str:
    """Return the overview as a short text in Markdown."""
    groups = (
        ("layers", [f"{_code(held.name)} ({_escaped(held.what)})" for held in overview.modules]),
        ("parameters", [_code(held.name) for held in overview.parameters]),
        ("buffers", [_code(held.name) for held in overview.buffers]),
        ("if they are layers", [_code(held.name) for held in overview.unknown]),
    )
    moves = [f"- {noun}: {', '.join(_cut(shown))}" for noun, shown in groups if shown]
    stays = _cut([f"{_code(held.name)}: {_escaped(held.what)}, line {held.row}" for held in overview.unregistered])
    seen = "" if overview.complete else ", as far as can be seen from here"
    lines = [f"**{_escaped(overview.name)}** moves with `.to(device)`{seen}:{'' if moves else ' nothing.'}", *moves, ""]
    lines += ["Stays behind:", *(f"- {line}" for line in stays)] if stays else ["Stays behind: nothing."]
    return "\n".join(lines) + "\n"


def _cut(shown: list[str]) -> list[str]:
    return shown if len(shown) <= _MOST + 1 else [*shown[:_MOST], f"and {len(shown) - _MOST} more"]


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def _escaped(text: str) -> str:
    return text.replace("_", r"\_")
