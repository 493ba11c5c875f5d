"""All that is known of one file: its classes, and what running them on paper shows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel, outside_state
from torchstray.semantics.evaluate import Frame, names_in
from torchstray.semantics.facts import ClassFacts, ClassState, DiscardedMove, Late, NonLeaf, Phase, Unmoved
from torchstray.semantics.imports import Constant, Imports
from torchstray.semantics.interpret import Interpreter
from torchstray.semantics.names import FileNames, dotted, target_names, walk
from torchstray.semantics.placement import Placement
from torchstray.semantics.project import Project
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import (
    UNKNOWN,
    Arguments,
    ClassValue,
    Distribution,
    FunctionValue,
    Instance,
    Made,
    ModuleInstance,
    Optimizer,
    Origin,
    Parameter,
    Place,
    Qualified,
    SelfValue,
    Tensor,
    Value,
    contents,
    made_by,
    one_of,
    options_of,
)
from torchstray.syntax.document import Document, Statement

STEPS = (
    "forward",
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
    "compute_loss",
    "loss",
    "generate",
    "sample",
)
_DEEPEST = 4
_MOST_FOLLOWED = 200
_DEFINITIONS = (cst.ClassDef, cst.FunctionDef)
_STATE = (ModuleInstance, Parameter, Tensor)
_NO_STATE = State(parameters=False, buffers=False, mode=False)


class FileModel:
    """What is known of `document`, which lies at `path`. Everything is worked out when it is first asked
    for. `constants` are what names in other files were found to be worth."""

    def __init__(self, document: Document, project: Project, path: Path | None = None) -> None:
        self.document = document
        self.project = project
        self.imports = Imports(project, os.path.abspath(path) if path is not None else None)  # noqa: PTH100
        self.constants: dict[tuple[str, str], Value] = {}
        self._resolved: dict[str, Value | Constant | None] = {}
        self._from_stars: dict[str, str | None] = {}
        self.names = FileNames(document)
        self.globals: dict[str, Value] = {}
        self._classes: dict[cst.ClassDef, ClassModel] = {}
        self._facts: dict[ClassModel, ClassFacts] = {}
        self._building: list[ClassFacts] = []
        self._followed: list[ClassModel] = []
        self._follows_left = _MOST_FOLLOWED
        self.tensor_parameters: dict[cst.FunctionDef, frozenset[str]] = {}
        self._arithmetic: dict[cst.CSTNode | None, frozenset[str]] = {}
        self._runs: list[Placement] = []
        self._define()

    # Classes and functions

    def _define(self) -> None:
        scopes: dict[str, ClassModel] = {}
        for node, statement in self.names.classes:
            scopes[node.name.value] = self._add_class(node, statement)
        for name, (function, statement) in self.names.functions.items():
            self.globals[name] = FunctionValue(function, statement)
        for name, cls in scopes.items():
            self.globals[name] = ClassValue(cls)
        for statement in self.document.statements:
            for found in statement.derived(_inner_classes):
                if found not in self._classes:
                    self._add_class(found, statement)
        for cls in self._classes.values():
            cls.bases = tuple(self._base(argument.value, cls) for argument in cls.node.bases if not argument.star)

    def _add_class(self, node: cst.ClassDef, statement: Statement) -> ClassModel:
        cls = ClassModel(node, statement)
        self._classes[node] = cls
        return cls

    def _base(self, node: cst.BaseExpression, cls: ClassModel) -> ClassModel | str | None:
        while isinstance(node, cst.Subscript):
            node = node.value
        name = dotted(node)
        if name is None:
            return None
        head, _, rest = name.partition(".")
        known = self.globals.get(head)
        if isinstance(known, ClassValue) and not rest and known.cls is not cls:
            return known.cls
        full = self.full_name(head)
        if full is not None:
            full = torch_api.canonical(f"{full}.{rest}" if rest else full)
            found = self.resolve(full)
            if isinstance(found, ClassValue):
                return found.cls
            return found.name if isinstance(found, Qualified) else full
        same_name = [other for other in self._classes.values() if other.name == name and other is not cls]
        if len(same_name) == 1:
            return same_name[0]
        return "object" if name == "object" else None

    def resolve(self, full: str) -> Value | Constant | None:
        """What something imported by this full name is; None where it cannot be found."""
        if full not in self._resolved:
            self._resolved[full] = self.imports.resolve(full)
        return self._resolved[full]

    def full_name(self, name: str) -> str | None:
        """The full name that an imported name stands for; None where it is not imported."""
        full = self.names.qualified(name)
        if full is not None and name in self.names.alternatives:
            either = (one for one in (full, *self.names.alternatives[name]) if self.resolve(one) is not None)
            return next(either, full)
        if full is not None or not self.names.stars:
            return full
        if name not in self._from_stars:
            found = (star for star in self.names.stars if self.imports.exports(star, name))
            star = next(found, None)
            separator = "" if star is not None and star.endswith(".") else "."
            self._from_stars[name] = f"{star}{separator}{name}" if star is not None else None
        return self._from_stars[name]

    def class_of(self, node: cst.ClassDef) -> ClassModel | None:
        """The class that this `class` statement defines."""
        return self._classes.get(node)

    @property
    def classes(self) -> list[ClassModel]:
        """All classes of the file, in order."""
        return list(self._classes.values())

    @cached_property
    def modules(self) -> list[ClassFacts]:
        """The facts of every module class, in the order of the file."""
        self.script  # noqa: B018 - names at file level are bound first
        return [self.facts(cls) for cls in self.classes if cls.is_module]

    # Facts

    def facts(self, cls: ClassModel) -> ClassFacts:
        """What running a module class on paper shows: first its `__init__`, then `forward` and the step methods."""
        if cls in self._facts:
            return self._facts[cls]
        facts = self._facts[cls] = self._blank(cls)
        self._run_class_body(facts)
        self._building.append(facts)
        self._run_init(facts)
        self._building.remove(facts)
        cls.state = facts.instance.whole_state()
        self._note_movers(facts)
        self._run_steps(facts)
        return facts

    def _blank(self, cls: ClassModel) -> ClassFacts:
        own = [state for name in cls.outside if (state := outside_state(name)) is not None]
        state = State(
            parameters=any(one.parameters for one in own),
            buffers=any(one.buffers for one in own),
            mode=any(one.mode for one in own),
        )
        return ClassFacts(cls, ModuleInstance(cls.name, state, cls.place, cls, registered=True))

    def _run_class_body(self, facts: ClassFacts) -> None:
        interpreter = Interpreter(self, None, Phase.OTHER)
        for cls in facts.cls.own_classes:
            interpreter.frames.append(Frame(cls.statement, home=cls.home))
            for assignment in cls.assignments:
                if assignment.value is None:
                    continue
                value = interpreter.evaluate(assignment.value)
                targets = (
                    [assignment.target]
                    if isinstance(assignment, cst.AnnAssign)
                    else [target.target for target in assignment.targets]
                )
                for target in targets:
                    interpreter.bind(target, value, assignment, assignment.value)
                for name in (name for target in targets for name in target_names(target)):
                    kept = interpreter.frame.names.get(name.value, UNKNOWN)
                    facts.class_values.setdefault(name.value, kept)
                    if cls is facts.cls and any(isinstance(held, _STATE) for held in contents(kept)):
                        place = Place(cls.statement, name)
                        facts.class_state.append(
                            ClassState(name.value, kept, place, Place(cls.statement, assignment), assignment.value)
                        )
            interpreter.frames.pop()

    def _run_init(self, facts: ClassFacts) -> None:
        cls = facts.cls
        interpreter = Interpreter(self, facts, Phase.INIT)
        facts.initialised = any("__new__" in own.methods for own in cls.own_classes)  # which may run it
        constructor = "__post_init__" if cls.is_dataclass else "__init__"
        self._run(interpreter, cls, constructor)
        if not facts.initialised and cls.is_known_module and _all_here(cls):
            facts.early = [replace(early, never=True) for early in facts.early]
        facts.initialised = True
        facts.left = interpreter.placement.left_behind()
        facts.late = [late for late in interpreter.placement.waiting if interpreter.placement.trained(late)]
        for name in ("setup", "configure_model"):
            found = cls.find_method(name)
            if found is not None and not self._ran(facts, found[1]):
                self._run(interpreter, cls, name)
        self._collect(interpreter)
        facts.forget_restored()
        facts.held = {store: tuple(contents(store.value)) for stores in facts.live.values() for store in stores}

    def _run(self, interpreter: Interpreter, cls: ClassModel, name: str) -> None:
        found = cls.find_method(name)
        if found is not None:
            owner, method = found
            function = FunctionValue(method, owner.statement, owner, SelfValue(cls))
            interpreter.run_function(function, Arguments(complete=False))

    def _ran(self, facts: ClassFacts, method: cst.FunctionDef) -> bool:
        return any(store.method is not None and store.method.node is method for store in facts.stores)

    def _note_movers(self, facts: ClassFacts) -> None:
        moved: set[str] = set()
        for cls in facts.cls.own_classes:
            for name in ("_apply", "to", "cuda"):
                method = cls.methods.get(name)
                if method is None:
                    continue
                interesting = set(names_in(method.body))
                if interesting & {"vars", "setattr"} or "__dict__" in _attributes_in(method.body):
                    facts.moves_everything = True
                moved |= set(_attributes_in(method.body))
            if "__setattr__" in cls.methods:
                facts.moves_everything = True
        facts.moved_by_itself = frozenset(moved)

    def _run_steps(self, facts: ClassFacts) -> None:
        cls = facts.cls
        built = dict(facts.live)
        used = any(not store.elsewhere and _may_stray(store.value) for store in facts.stores)
        entries = [found for name in STEPS if (found := cls.find_method(name)) is not None]
        seen: set[cst.CSTNode] = set()
        for owner, method in entries:
            if owner.home is not None and not used:
                continue  # what it shows is for the check of its own file
            self._run_method(facts, owner, method, Phase.FORWARD)
            seen.add(method)
            facts.live = dict(built)
        for owner in cls.own_classes:
            if owner.home is not None:
                continue
            for name, method in owner.methods.items():
                if (
                    method not in seen
                    and method not in facts.building
                    and name not in {"__init__", "_apply", "to", "cuda"}
                    and cls.find_method(name) == (owner, method)
                ):
                    self._run_method(facts, owner, method, Phase.OTHER)
                    facts.live = dict(built)

    def _run_method(self, facts: ClassFacts, owner: ClassModel, method: cst.FunctionDef, phase: Phase) -> None:
        interpreter = Interpreter(self, facts, phase)
        static = any(dotted(decorator.decorator) == "staticmethod" for decorator in method.decorators)
        bound = None if static else SelfValue(facts.cls)
        interpreter.run_function(FunctionValue(method, owner.statement, owner, bound), Arguments(complete=False))
        self.moves.extend(interpreter.discarded)
        self.non_leaves.extend(interpreter.non_leaves)

    def state_of(self, cls: ClassModel) -> State | None:
        """The state that an instance of a module class has; None where nothing of it is known, or while that is
        being found out."""
        if cls.home is not None:
            return self.project.remember(cls.home.path, ("state", cls), lambda: self._state_elsewhere(cls))
        facts = self.facts(cls)
        return cls.state if cls.state is not None else None if facts in self._building else _NO_STATE

    def _state_elsewhere(self, cls: ClassModel) -> State:
        """The state of a class in another file, of which only `__init__` is run."""
        constants, self.constants = self.constants, {}
        facts = self._blank(cls)
        self._run_class_body(facts)
        self._run_init(facts)
        self.constants = constants
        state = facts.instance.whole_state() or _NO_STATE
        if any("_apply" in own.methods for own in cls.own_classes):  # it has tensors of its own to move
            state = replace(state, buffers=True)
        return state

    # The file itself

    @cached_property
    def moves(self) -> list[DiscardedMove]:
        """The moves of tensors whose results are lost, found so far."""
        return []

    @cached_property
    def non_leaves(self) -> list[NonLeaf]:
        """The non-leaf tensors that an optimizer gets, found so far."""
        return []

    @cached_property
    def script(self) -> Interpreter:
        """The run of the file's top level, and then of its functions and plain classes."""
        interpreter = Interpreter(self, None, Phase.SCRIPT)
        for statement in self.document.statements:
            frame = Frame(statement, self.globals)
            interpreter.frames.append(frame)
            interpreter.run([line for line in statement.tree.body if not isinstance(line, _DEFINITIONS)])
            self.globals = interpreter.globals = frame.names
            interpreter.frames.pop()
        for name, value in self.globals.items():
            place = self.names.assigned.get(name)
            if place is not None and not _moved_somewhere(value):
                self.globals[name] = made_by(value, Origin(Made.FILE, place, name))
            elif place is not None:
                self.globals[name] = one_of(
                    replace(option, origins=frozenset()) if isinstance(option, Tensor) else option
                    for option in options_of(value)
                )
        self._collect(interpreter)
        return interpreter

    def run_all(self) -> None:
        """Run everything: the file, the module classes, the functions and the plain classes."""
        _ = self.modules
        start = self.script.placement
        for function, statement in self.names.functions.values():
            interpreter = Interpreter(self, None, Phase.SCRIPT, start)
            self._run_whole(interpreter, FunctionValue(function, statement))
        extended = {base for cls in self.classes if cls.is_module for base in cls.own_classes}
        for cls in self.classes:
            if cls.is_module:
                continue
            instance = Instance(cls)
            before = start
            runs: list[Placement] = []
            built: dict[str, Value] = {}
            placed = cls.is_plain and cls not in extended and "forward" not in cls.methods
            for name, method in sorted(cls.methods.items(), key=lambda pair: pair[0] != "__init__"):
                interpreter = Interpreter(self, None, Phase.SCRIPT, before)
                static = any(dotted(decorator.decorator) == "staticmethod" for decorator in method.decorators)
                function_value = FunctionValue(method, cls.statement, cls, None if static else instance)
                self._run_whole(interpreter, function_value, placed)
                runs.append(interpreter.placement)
                if name == "__init__":
                    before = interpreter.placement
                    built = {
                        name: value
                        for name, value in instance.attributes.items()
                        if any(isinstance(option, ModuleInstance | Optimizer) for option in options_of(value))
                    }
                else:
                    instance.attributes.update(built)
            for run in runs:
                run.used_elsewhere({place for other in runs for place in other.used})

    def _run_whole(self, interpreter: Interpreter, function: FunctionValue, placed: bool = True) -> None:
        """Run a function or method as someone would who knows nothing of its arguments. With `placed`, it is known
        whether what its object holds moves with that."""
        interpreter.placement.entry = function.node
        value = interpreter.run_function(function, Arguments(complete=False))
        if placed:
            interpreter.placement.returned(value)
        else:
            interpreter.placement.forget()
        self._collect(interpreter)

    def _collect(self, interpreter: Interpreter) -> None:
        self.moves.extend(interpreter.discarded)
        self.non_leaves.extend(interpreter.non_leaves)
        self._runs.append(interpreter.placement)

    @property
    def unmoved(self) -> list[Unmoved]:
        """The calls of modules that have not moved with data that has, one for each call; those that are certain come
        first. What the script itself has run is judged by that run."""
        found: dict[cst.CSTNode, Unmoved] = {}
        for run in self._runs:
            for unmoved in _all_of_the_choices(run.found):
                node = unmoved.attached.statement.node if unmoved.attached is not None else unmoved.call.node
                if self._stands(run, unmoved.call.node, {unmoved.culprit.identity, unmoved.module.identity}):
                    known = found.get(node)
                    if known is None or (unmoved.certain and not known.certain):
                        found[node] = unmoved
        return list(found.values())

    @property
    def late(self) -> list[Late]:
        """The layers that came after an optimizer was built, one for each place."""
        found: dict[cst.CSTNode, Late] = {}
        for run in self._runs:
            for late in run.late:
                rebuilt: set[object] = {("optimized", late.root)}
                known = late.target.node in found and not late.certain
                if not known and run.trained(late) and self._stands(run, None, rebuilt):
                    found[late.target.node] = late
        return list(found.values())

    def _stands(self, run: Placement, call: cst.CSTNode | None, identities: set[object]) -> bool:
        """Whether what one run has shown stands although the others, of which nobody knows when they happen, have
        happened."""
        script = self._runs[0]
        if run is script:
            return True
        if call in script.visited:
            return False
        before = {id(run)}
        earlier = run.before
        while earlier is not None:
            before.add(id(earlier))
            earlier = earlier.before
        return not any(
            identities & other.touched
            for other in self._runs
            if id(other) not in before and other.entry not in run.executed
        )

    @property
    def moved_classes(self) -> frozenset[ClassModel]:
        """The module classes of which the file moves an instance."""
        return frozenset(cls for run in self._runs for cls in run.moved_classes)

    def may_follow(self, cls: ClassModel) -> bool:
        """Whether the `forward` of a class may be run for another class that calls it: not within itself, not too deep,
        and not once it has cost too much."""
        self._follows_left -= 1
        return cls not in self._followed and len(self._followed) < _DEEPEST and self._follows_left > 0

    @contextmanager
    def following(self, cls: ClassModel) -> Iterator[None]:
        """While the `forward` of a class is run for another one."""
        self._followed.append(cls)
        try:
            yield
        finally:
            self._followed.remove(cls)

    @cached_property
    def lengths(self) -> frozenset[str]:
        """The names that are handed to `pack_padded_sequence` as they are: such lengths are on the CPU."""
        found = set()
        for statement in self.document.statements if "pack_padded_sequence(" in self.document.text else ():
            for node in walk(statement.tree):
                if isinstance(node, cst.Call) and (dotted(node.func) or "").endswith("pack_padded_sequence"):
                    named = [part for part in node.args if part.keyword is not None and part.keyword.value == "lengths"]
                    for argument in named or node.args[1:2]:
                        found |= {argument.value.value} if isinstance(argument.value, cst.Name) else set()
        return frozenset(found)

    @cached_property
    def sets_default_device(self) -> bool:
        """Whether the file changes the device on which torch makes tensors."""
        return "set_default_device(" in self.document.text or "set_default_tensor_type(" in self.document.text

    def arithmetic_names(self, function: FunctionValue | None) -> frozenset[str]:
        """The names that a function (None: the file's top level) adds, multiplies, negates and the like."""
        node = function.node if function is not None else None
        if node not in self._arithmetic:
            top = [line for statement in self.document.statements for line in statement.tree.body]
            scope = [node] if node is not None else [line for line in top if not isinstance(line, _DEFINITIONS)]
            self._arithmetic[node] = frozenset(name for part in scope for name in _operands(part))
        return self._arithmetic[node]

    def attribute_read(self, attribute: str) -> bool:
        """Whether anything in the file reads an attribute of this name other than through `self`, or one whose name
        is not known."""
        return attribute in self._foreign_attributes

    @cached_property
    def _foreign_attributes(self) -> frozenset[str]:
        return frozenset().union(*(statement.derived(_foreign_attributes) for statement in self.document.statements))


def _all_of_the_choices(found: list[Unmoved]) -> Iterator[Unmoved]:
    """What is found of calls; of a call of one of several modules it is only certain if it is found of all."""
    for unmoved in found:
        same = sum(other.call.node is unmoved.call.node and other.certain for other in found)
        yield replace(unmoved, certain=unmoved.certain and same >= unmoved.choices)


def _all_here(cls: ClassModel) -> bool:
    """Whether no class of another file has a say in how an instance is built."""
    return all(own.home is None for own in cls.own_classes)


def _may_stray(value: Value) -> bool:
    return any(isinstance(held, Tensor | Distribution) for held in contents(value))


def _moved_somewhere(value: Value) -> bool:
    """Whether one of several branches has moved a tensor, so that somebody has thought of its device."""
    tensors = [option for option in options_of(value) if isinstance(option, Tensor)]
    return any(not tensor.origins for tensor in tensors)


def _foreign_attributes(tree: cst.Module) -> frozenset[str]:
    """The attributes of anything but `self` that a statement names."""
    return frozenset(
        node.attr.value
        for node in walk(tree)
        if isinstance(node, cst.Attribute) and not (isinstance(node.value, cst.Name) and node.value.value == "self")
    )


def _inner_classes(tree: cst.Module) -> tuple[cst.ClassDef, ...]:
    """The classes defined in a statement, at whatever depth."""
    return tuple(node for node in walk(tree) if isinstance(node, cst.ClassDef))


def _attributes_in(node: cst.CSTNode) -> set[str]:
    return {found.attr.value for found in walk(node) if isinstance(found, cst.Attribute)}


def _operands(node: cst.CSTNode) -> set[str]:
    """The plain names that stand beside an arithmetic operator."""
    sides: list[cst.BaseExpression] = []
    for found in walk(node):
        if isinstance(found, cst.BinaryOperation):
            sides += [found.left, found.right]
        elif isinstance(found, cst.UnaryOperation) and isinstance(found.operator, cst.Minus):
            sides.append(found.expression)
    return {side.value for side in sides if isinstance(side, cst.Name)}
