"""All that is known of one file: its classes, and what running them on paper shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel, outside_state
from torchstray.semantics.evaluate import Frame, names_in
from torchstray.semantics.facts import ClassFacts, ClassState, DiscardedMove, Late, NonLeaf, Phase, Unmoved
from torchstray.semantics.interpret import Interpreter
from torchstray.semantics.names import FileNames, blocks, dotted, walk
from torchstray.semantics.placement import Placement
from torchstray.semantics.project import Project
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import (
    UNKNOWN,
    Arguments,
    ClassValue,
    FunctionValue,
    Instance,
    ModuleInstance,
    Optimizer,
    Parameter,
    Place,
    SelfValue,
    Tensor,
    Value,
    contents,
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
_DEFINITIONS = (cst.ClassDef, cst.FunctionDef)
_STATE = (ModuleInstance, Parameter, Tensor)
_NO_STATE = State(parameters=False, buffers=False, mode=False)


class FileModel:
    """What is known of `document`. Everything is worked out when it is first asked for."""

    def __init__(self, document: Document, project: Project) -> None:
        self.document = document
        self.project = project
        self.names = FileNames(document)
        self.globals: dict[str, Value] = {}
        self._classes: dict[cst.ClassDef, ClassModel] = {}
        self._facts: dict[ClassModel, ClassFacts] = {}
        self._building: list[ClassFacts] = []
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
            for line in statement.tree.body:
                for found in _inner_classes(line):
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
        full = self.names.qualified(head)
        if full is not None:
            return torch_api.canonical(f"{full}.{rest}" if rest else full)
        same_name = [other for other in self._classes.values() if other.name == name and other is not cls]
        if len(same_name) == 1:
            return same_name[0]
        return "object" if name == "object" else None

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
        own = [state for name in cls.outside if (state := outside_state(name)) is not None]
        state = State(
            parameters=any(one.parameters for one in own),
            buffers=any(one.buffers for one in own),
            mode=any(one.mode for one in own),
        )
        facts = ClassFacts(cls, ModuleInstance(cls.name, state, cls.place, cls, registered=True))
        self._facts[cls] = facts
        self._run_class_body(facts)
        self._building.append(facts)
        self._run_init(facts)
        self._building.remove(facts)
        cls.state = facts.instance.whole_state()
        self._note_movers(facts)
        self._run_steps(facts)
        return facts

    def _run_class_body(self, facts: ClassFacts) -> None:
        interpreter = Interpreter(self, None, Phase.OTHER)
        for cls in facts.cls.own_classes:
            interpreter.frames.append(Frame(cls.statement))
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
                for name in _names_of(targets):
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
        if not facts.initialised:
            facts.early = [replace(early, never=True) for early in facts.early]
        facts.initialised = True
        facts.left = interpreter.placement.left_behind()
        facts.late = [late for late in interpreter.placement.waiting if interpreter.placement.trained(late)]
        for name in ("setup", "configure_model"):
            found = cls.find_method(name)
            if found is not None and not self._ran(facts, found[1]):
                self._run(interpreter, cls, name)
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
        entries = [found for name in STEPS if (found := cls.find_method(name)) is not None]
        seen: set[cst.CSTNode] = set()
        for owner, method in entries:
            self._run_method(facts, owner, method, Phase.FORWARD)
            seen.add(method)
            facts.live = dict(built)
        for owner in cls.own_classes:
            for name, method in owner.methods.items():
                if (
                    method not in seen
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
        facts = self.facts(cls)
        return cls.state if cls.state is not None else None if facts in self._building else _NO_STATE

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
        found: set[str] = set()
        for statement in self.document.statements:
            _collect_foreign(statement.tree, found)
        return frozenset(found)


def _all_of_the_choices(found: list[Unmoved]) -> Iterator[Unmoved]:
    """What is found of calls; of a call of one of several modules it is only certain if it is found of all."""
    for unmoved in found:
        same = sum(other.call.node is unmoved.call.node and other.certain for other in found)
        yield replace(unmoved, certain=unmoved.certain and same >= unmoved.choices)


def _names_of(targets: Iterable[cst.BaseExpression]) -> Iterator[cst.Name]:
    """The plain names among the targets of an assignment."""
    for target in targets:
        if isinstance(target, cst.Name):
            yield target
        elif isinstance(target, cst.Tuple | cst.List):
            yield from _names_of(element.value for element in target.elements)


def _collect_foreign(node: cst.CSTNode, found: set[str]) -> None:
    if isinstance(node, cst.Attribute) and not (isinstance(node.value, cst.Name) and node.value.value == "self"):
        found.add(node.attr.value)
    for child in node.children:
        _collect_foreign(child, found)


def _inner_classes(node: cst.CSTNode) -> list[cst.ClassDef]:
    """The classes defined in a statement, at whatever depth."""
    found: list[cst.ClassDef] = []
    if isinstance(node, cst.ClassDef):
        found.append(node)
    suites = [node.body] if isinstance(node, cst.ClassDef | cst.FunctionDef) else list(blocks(node))
    for suite in suites:
        for child in suite.body:
            found += _inner_classes(child)
    return found


def _attributes_in(node: cst.CSTNode) -> set[str]:
    return {found.attr.value for found in walk(node) if isinstance(found, cst.Attribute)}


def _operands(node: cst.CSTNode) -> set[str]:
    """The plain names that stand beside an arithmetic operator."""
    found: set[str] = set()
    sides: list[cst.BaseExpression] = []
    if isinstance(node, cst.BinaryOperation):
        sides = [node.left, node.right]
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        sides = [node.expression]
    for side in sides:
        if isinstance(side, cst.Name):
            found.add(side.value)
    for child in node.children:
        found |= _operands(child)
    return found
