"""The classes of a file: their bases, their order of resolution, and whether they are modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchstray.semantics import ecosystem, torch_api
from torchstray.semantics.names import blocks, dotted, walk
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import Place
from torchstray.syntax.document import Statement

if TYPE_CHECKING:
    from torchstray.semantics.imports import OtherFile

_MODULE_WORDS = ("register_buffer", "register_parameter", "Module.__init__")
_PLAIN_BASES = frozenset({"object", "abc.ABC", "typing.Generic", "typing.NamedTuple", "typing.Protocol"})


@dataclass(eq=False)
class ClassModel:
    """A class whose source can be seen. `bases` are such classes, full names of others, or None where the base is an
    expression that cannot be read. `assignments` are the class-level ones, in order. `state` is what an instance of a
    module class has, once that is known. `home` is the file that it stands in, None for the one that is checked."""

    node: cst.ClassDef
    statement: Statement
    bases: tuple[ClassModel | str | None, ...] = ()
    methods: dict[str, cst.FunctionDef] = field(default_factory=dict)
    setters: dict[str, cst.FunctionDef] = field(default_factory=dict)
    assignments: list[cst.Assign | cst.AnnAssign] = field(default_factory=list)
    state: State | None = None
    home: OtherFile | None = None
    _resolution: tuple[ClassModel | str | None, ...] | None = None

    def __post_init__(self) -> None:
        for node in self.node.body.body:
            self._collect(node)

    def _collect(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.FunctionDef):
            kinds = {(dotted(decorator.decorator) or "").rpartition(".")[2] for decorator in node.decorators}
            if "setter" in kinds:
                self.setters[node.name.value] = node
            elif "deleter" not in kinds:
                self.methods[node.name.value] = node
        elif isinstance(node, cst.SimpleStatementLine):
            self.assignments += [small for small in node.body if isinstance(small, cst.Assign | cst.AnnAssign)]
        elif isinstance(node, cst.Assign | cst.AnnAssign):
            self.assignments.append(node)
        else:
            for block in blocks(node):
                for child in block.body:
                    self._collect(child)

    @property
    def name(self) -> str:
        """The name in its `class` statement."""
        return self.node.name.value

    @property
    def place(self) -> Place:
        """Where it is defined."""
        return Place(self.statement, self.node)

    @property
    def resolution(self) -> tuple[ClassModel | str | None, ...]:
        """The order in which attributes are looked up, this class first (Python's C3 order; depth first where there
        is none)."""
        waiting, seen = [self], {self}
        while waiting:  # bases first, without recursion: a chain of classes may be long
            cls = waiting[-1]
            missing = [base for base in cls.bases if isinstance(base, ClassModel) and base._resolution is None]
            fresh = [base for base in missing if base not in seen]
            if fresh:
                seen.update(fresh)
                waiting += fresh
            else:
                waiting.pop()
                if cls._resolution is None:
                    cls._resolution = tuple(_linearise(cls))
        assert self._resolution is not None
        return self._resolution

    @property
    def own_classes(self) -> Iterator[ClassModel]:
        """The classes that can be seen, in the order of resolution."""
        return (entry for entry in self.resolution if isinstance(entry, ClassModel))

    @property
    def outside(self) -> Iterator[str]:
        """The full names of the classes that cannot be seen, and of torch's, in the order of resolution."""
        return (entry for entry in self.resolution if isinstance(entry, str))

    @property
    def is_module(self) -> bool:
        """Whether it is provably an `nn.Module`, or says so itself where a base cannot be found."""
        return self.is_known_module or (not self.is_plain and any(own.says_module for own in self.own_classes))

    @property
    def is_known_module(self) -> bool:
        """Whether `nn.Module` is among its bases."""
        return any(outside_state(name) is not None for name in self.outside)

    @cached_property
    def says_module(self) -> bool:
        """Whether a method does to `self` what only a module can: registers a buffer or a parameter in it, or runs
        `nn.Module.__init__` on it."""
        if not any(word in self.statement.text for word in _MODULE_WORDS):
            return False
        for method in self.methods.values():
            own = method.params.params[0].name.value if method.params.params else None
            for node in walk(method.body) if own is not None else ():
                if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
                    continue
                path = dotted(node.func) or ""
                if path in {f"{own}.register_buffer", f"{own}.register_parameter"}:
                    return True
                if path.endswith("nn.Module.__init__") and node.args and dotted(node.args[0].value) == own:
                    return True
        return False

    @property
    def fully_known(self) -> bool:
        """Whether all its bases can be seen."""
        return all(
            isinstance(entry, ClassModel)
            or (isinstance(entry, str) and (entry == "object" or torch_api.module_class(entry) is not None))
            for entry in self.resolution
        )

    @property
    def shows_everything(self) -> bool:
        """Whether none of its bases but those that can be seen gives an instance parameters, buffers or submodules."""
        return all(isinstance(entry, ClassModel) or _adds_nothing(entry) for entry in self.resolution)

    @property
    def fields(self) -> list[str]:
        """The annotated class-level names, bases first: what the constructor of a dataclass or named tuple sets."""
        names: dict[str, None] = {}
        for cls in reversed(list(self.own_classes)):
            for assignment in cls.assignments:
                if isinstance(assignment, cst.AnnAssign) and isinstance(assignment.target, cst.Name):
                    names[assignment.target.value] = None
        return list(names)

    @property
    def is_plain(self) -> bool:
        """Whether all its bases can be seen, or are known to hold nothing."""
        return all(
            isinstance(entry, ClassModel) or (entry is not None and entry in _PLAIN_BASES) for entry in self.resolution
        )

    def find_method(self, name: str, after: ClassModel | None = None) -> tuple[ClassModel, cst.FunctionDef] | None:
        """The method that `name` means for an instance, or for its `super()` in class `after`; None where no class
        that can be seen defines it, or where another that may define it comes first."""
        entries = list(self.resolution)
        if after is not None and after in entries:
            entries = entries[entries.index(after) + 1 :]
        for entry in entries:
            if isinstance(entry, ClassModel):
                if name in entry.methods:
                    return entry, entry.methods[name]
            elif name == "__init__" and entry is not None and outside_state(entry) is not None:
                return None
        return None

    def find_setter(self, name: str) -> tuple[ClassModel, cst.FunctionDef] | None:
        """The setter of the property that `name` is; None where it is none."""
        return next(((cls, cls.setters[name]) for cls in self.own_classes if name in cls.setters), None)

    @property
    def is_dataclass(self) -> bool:
        """Whether its constructor is made for it by `dataclass` or `attrs`."""
        written = (decorator.decorator for decorator in self.node.decorators)
        names = ((dotted(node.func if isinstance(node, cst.Call) else node) or "") for node in written)
        return "__init__" not in self.methods and any(
            name.rpartition(".")[2] in {"dataclass", "define", "attrs", "attr", "s"} for name in names
        )


def outside_state(name: str) -> State | None:
    """The state that an imported module class has of itself; None where it is not known to be a module."""
    known = torch_api.module_class(name)
    return known.state if known is not None else ecosystem.module_state(name)


def _adds_nothing(name: str | None) -> bool:
    """Whether an imported class is known to hold nothing of its own."""
    if name is None or name in _PLAIN_BASES or name == "torch.nn.Module":
        return name is not None
    state = ecosystem.module_state(name)
    return state is not None and not state.any


def _linearise(cls: ClassModel) -> list[ClassModel | str | None]:
    sequences: list[list[ClassModel | str | None]] = [
        list(base._resolution or (base,)) if isinstance(base, ClassModel) else _outside_resolution(base)
        for base in cls.bases  # a base without a resolution is, by mistake, its own base
    ]
    if len(sequences) == 1:
        return [cls, *(entry for entry in sequences[0] if entry is not cls)]
    sequences.append(list(cls.bases))
    merged: list[ClassModel | str | None] = [cls]
    while any(sequences):
        sequences = [sequence for sequence in sequences if sequence]
        head = next(
            (sequence[0] for sequence in sequences if not any(sequence[0] in other[1:] for other in sequences)),
            sequences[0][0],
        )
        merged.append(head)
        sequences = [[entry for entry in sequence if entry is not head and entry != head] for sequence in sequences]
    return merged


def _outside_resolution(name: str | None) -> list[ClassModel | str | None]:
    known = torch_api.module_class(name) if name is not None else None
    return [name, *known.bases] if known is not None else [name]
