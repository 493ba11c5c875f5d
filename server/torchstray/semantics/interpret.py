"""Runs functions on paper: statements, branches, loops, and what they do to a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.calls import Caller, makes_layer
from torchstray.semantics.classes import ClassModel, outside_state
from torchstray.semantics.devices import tensor_parameters, text_of_function
from torchstray.semantics.evaluate import INPUT, PLACED, Frame, decorators, names_in
from torchstray.semantics.facts import (
    Built,
    ClassFacts,
    DiscardedMove,
    Early,
    Emptied,
    Fate,
    Handling,
    How,
    KeptItem,
    NonLeaf,
    Phase,
    Registration,
    Store,
)
from torchstray.semantics.names import FileNames, blocks, dotted, holds, walk
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import (
    ANY_SCALAR,
    UNKNOWN,
    Arguments,
    Batch,
    ClassValue,
    Container,
    Device,
    FunctionValue,
    Input,
    Instance,
    Made,
    ModuleInstance,
    Moved,
    Origin,
    Parameter,
    Place,
    Qualified,
    Scalar,
    SelfValue,
    Shape,
    Source,
    Tensor,
    Value,
    contents,
    made_by,
    modules_in,
    one_of,
    options_of,
    parameters_in,
)

if TYPE_CHECKING:
    from torchstray.semantics.model import FileModel

# In place of the tests that the parts of a `try` statement are: the second asks whether there is such a device.
_TRIED, _HANDLED = cst.Name("__tried__"), cst.Name("__device_is_missing__")
_MOST_CALLS = 16
_MOST_STATEMENTS = 10_000
_GENERICS = {
    "list": Shape.LIST,
    "sequence": Shape.LIST,
    "iterable": Shape.LIST,
    "tuple": Shape.TUPLE,
    "dict": Shape.DICT,
    "mapping": Shape.DICT,
}
_SCALAR_TYPES = frozenset({"int", "float", "str", "bool", "complex", "bytes"})


@dataclass
class _Paths:
    """What differs between branches: the names of the frame and the module's attributes."""

    names: dict[str, Value]
    live: dict[str, tuple[Store, ...]]
    initialised: bool
    done: bool


class Interpreter(Caller):
    """Runs functions of one file. With `facts`, `self` is the module that they belong to."""

    def __init__(self, model: FileModel, facts: ClassFacts | None, phase: Phase) -> None:
        super().__init__(model.names, facts, phase)
        self.model = model
        self.globals = model.globals
        self.default_devices = int(model.sets_default_device)
        self.calls: list[Place] = []
        self.statements_left = _MOST_STATEMENTS
        self._element = False
        self.discarded: list[DiscardedMove] = []
        self.non_leaves: list[NonLeaf] = []
        self.assigned: dict[int, tuple[Place, Place, cst.BaseExpression]] = {}
        self.moved_receivers: dict[cst.Call, Value] = {}

    # Running functions

    def run_function(self, function: FunctionValue, arguments: Arguments) -> Value:
        """Run a function as an outsider would call it."""
        value = self.call_function(function, arguments, function.node)
        if self.facts is not None and self.phase is Phase.FORWARD:
            self.frames.append(Frame(function.statement, {}, function))
            self.note_fate(value, Fate.RETURNED, function.node)
            self.frames.pop()
        return value

    def call_function(self, function: FunctionValue, arguments: Arguments, node: cst.CSTNode) -> Value:
        running = [frame.function.node for frame in self.frames if frame.function is not None]
        if function.node in running or len(running) >= _MOST_CALLS or self.statements_left <= 0:
            if self.facts is not None:
                self.facts.initialised = True  # for all that is known: what is not followed may do it
            return INPUT if self.phase is Phase.FORWARD else UNKNOWN
        if isinstance(function.node, cst.Lambda):
            frame = Frame(function.statement, {}, function, function.owner)
            self._bind_parameters(frame, function, function.node.params, arguments)
            return self._in_frame(frame, lambda: self.evaluate(function_body(function)), node)
        kinds = decorators(function.node)
        if "classmethod" in kinds:
            arguments = Arguments((UNKNOWN, *arguments.positional), arguments.keywords, arguments.complete)
        elif function.bound is not None:
            arguments = Arguments((function.bound, *arguments.positional), arguments.keywords, arguments.complete)
        instance = arguments.positional[0] if function.owner is not None and arguments.positional else None
        frame = Frame(function.statement, {}, function, function.owner, instance)
        self._bind_parameters(frame, function, function.node.params, arguments)
        body = function.node.body

        def run() -> Value:
            self.run_suite(body)
            return one_of(frame.returned) if frame.returned else Scalar(None)

        result = self._in_frame(frame, run, node)
        if self.remembers(function):
            if function.owner is not None and self.frames and not any(map(_names_device, arguments.values())):
                self.note_remembered(function, result, node)
            result = self._remembered(function, result, node)
        if function.node.asynchronous is not None:
            return UNKNOWN
        return result

    def _remembered(self, function: FunctionValue, result: Value, node: cst.CSTNode) -> Value:
        """What a function returns again and again, to the present frame."""
        assert isinstance(function.node, cst.FunctionDef)
        inside = bool(self.frames)
        origin = Origin(
            Made.CACHED,
            Place(function.statement, function.node),
            function.node.name.value,
            self.frame.function if inside else None,
            near=self._near() if inside else (),
            owner=function.owner,
            call=self.place(node) if inside and isinstance(result, Tensor) else None,
        )
        return made_by(result, origin)

    def remembers(self, function: FunctionValue) -> bool:
        """Whether a function returns again what it has returned for the same arguments."""
        if not isinstance(function.node, cst.FunctionDef):
            return False
        return any(is_cache(self.file_names, decorator.decorator) for decorator in function.node.decorators)

    def follow(self, cls: ClassModel, arguments: Arguments, node: cst.CSTNode) -> Value | None:
        found = cls.find_method("forward")
        running = [frame.function.node for frame in self.frames if frame.function is not None]
        if found is None or self.facts is None or found[1] in running or not self.model.may_follow(cls):
            return None
        owner, method = found
        facts = replace(
            self.model.facts(cls),
            live=dict(self.model.facts(cls).live),
            stores=[],
            uses=[],
            built=[],
            early=[],
            registrations=[],
            kept_items=[],
            remembered=[],
            fixed_devices={},
            meetings={},
        )
        interpreter = Interpreter(self.model, facts, Phase.FORWARD)
        with self.model.following(cls):
            value = interpreter.run_function(FunctionValue(method, owner.statement, owner, SelfValue(cls)), arguments)
        for key, meeting in facts.meetings.items():
            handed = any(self._holds_origin(argument, meeting.origin) for argument in arguments.values())
            if handed and meeting.fate is not Fate.RETURNED:
                self.facts.meetings.setdefault(key, replace(meeting, entry=self.entry))
        return _without_strays(value)

    def _holds_origin(self, value: Value, origin: Origin) -> bool:
        return any(isinstance(held, Tensor) and origin in held.origins for held in contents(value))

    def _in_frame(self, frame: Frame, run: object, node: cst.CSTNode) -> Value:
        assert callable(run)
        if self.frames:
            self.calls.append(self.place(node))
        self.frames.append(frame)
        try:
            value = run()
        finally:
            self.frames.pop()
            if self.frames:
                self.calls.pop()
        assert isinstance(value, Value)
        return value

    def _bind_parameters(
        self, frame: Frame, function: FunctionValue, parameters: cst.Parameters, arguments: Arguments
    ) -> None:
        positional = [*parameters.posonly_params, *parameters.params]
        for position, parameter in enumerate(positional):
            given = arguments.get(position, parameter.name.value)
            frame.names[parameter.name.value] = self._parameter_value(parameter, given, frame, arguments.complete)
        for parameter in parameters.kwonly_params:
            given = arguments.keywords.get(parameter.name.value)
            frame.names[parameter.name.value] = self._parameter_value(parameter, given, frame, arguments.complete)
        if isinstance(parameters.star_arg, cst.Param):
            rest = list(arguments.positional[len(positional) :])
            annotated = self._annotated(parameters.star_arg.annotation, frame, parameters.star_arg)
            frame.names[parameters.star_arg.name.value] = Container(
                Shape.TUPLE, rest or [annotated or self._stranger()], exact=bool(rest) and arguments.complete
            )
        if parameters.star_kwarg is not None:
            frame.names[parameters.star_kwarg.name.value] = Container(Shape.DICT, [UNKNOWN], [UNKNOWN])

    def _stranger(self) -> Value:
        """What an argument is of which nothing is said."""
        return Input(given=True) if self.phase is Phase.FORWARD else UNKNOWN

    def _parameter_value(self, parameter: cst.Param, given: Value | None, frame: Frame, complete: bool) -> Value:
        if given is not None and given is not UNKNOWN:
            return given
        annotated = self._annotated(parameter.annotation, frame, parameter)
        if annotated == PLACED and parameter.name.value in self.model.lengths:
            return INPUT
        if annotated is not None:
            return annotated
        if given is not None:
            return given
        default = parameter.default
        if default is not None:
            value = self._default(default, frame, parameter)
            # A caller may hand in another number, but what is a layer class by default is one in any case.
            if complete or makes_layer(value):
                return value
            if self.has_origins(value):
                return one_of([value, PLACED])
        if isinstance(default, cst.Integer | cst.Float | cst.SimpleString) or (
            isinstance(default, cst.Name) and default.value in {"True", "False"}
        ):
            return ANY_SCALAR
        if self.phase is Phase.FORWARD and parameter.annotation is None and self._used_as_tensor(parameter, frame):
            return PLACED
        return self._stranger()

    def _used_as_tensor(self, parameter: cst.Param, frame: Frame) -> bool:
        """Whether the function treats a parameter as nothing but a tensor."""
        function = frame.function.node if frame.function is not None else None
        if not isinstance(function, cst.FunctionDef):
            return False
        if function not in self.model.tensor_parameters:
            text = text_of_function(function, frame.statement.text)
            self.model.tensor_parameters[function] = tensor_parameters(function, text)
        name = parameter.name.value
        return name in self.model.tensor_parameters[function] and name not in self.model.lengths

    def _default(self, default: cst.BaseExpression, frame: Frame, parameter: cst.Param) -> Value:
        """What a default argument is: made once, when the function is defined."""
        phase = self.phase
        self.phase = Phase.SCRIPT if phase is Phase.FORWARD else Phase.OTHER
        self.frames.append(Frame(frame.statement))
        value = self.evaluate(default)
        self.frames.pop()
        self.phase = phase
        origin = Origin(Made.DEFAULT, Place(frame.statement, parameter), parameter.name.value, frame.function)
        return made_by(value, origin)

    def _annotated(self, annotation: cst.Annotation | None, frame: Frame, parameter: cst.Param) -> Value | None:
        """What the annotation of a parameter says of it; None where it says nothing of use."""
        if annotation is None:
            return None
        members = [name for node in _union(annotation.annotation) if (name := dotted(node)) != "None"]
        if members and all(name in _SCALAR_TYPES for name in members):
            return ANY_SCALAR
        if len(members) == 1 and members[0] is None:
            return self._annotated_container(annotation.annotation, frame, parameter)
        if len(members) == 1 and members[0] is not None:
            name = members[0]
            head, _, rest = name.partition(".")
            full = self.file_names.qualified(head)
            if full is not None:
                name = f"{full}.{rest}" if rest else full
            if name == "torch.Tensor" or torch_api.kind(name) == "tensor":
                if self.phase is Phase.FORWARD:
                    return PLACED
                source = Source.ARGUMENT if self.phase is Phase.INIT else Source.DATA
                return Tensor(source, leaf=False, made=Place(frame.statement, parameter))
            known = self.globals.get(name)
            is_module = outside_state(name) is not None or (isinstance(known, ClassValue) and known.cls.is_module)
            if is_module and self.phase is not Phase.FORWARD:
                return ModuleInstance(name, None, Place(frame.statement, parameter), argument=True)
        return None

    def _annotated_container(self, node: cst.BaseExpression, frame: Frame, parameter: cst.Param) -> Value | None:
        """What `list[Tensor]`, `dict[str, Tensor]` and the like say of a parameter."""
        member = next(iter(_union(node)))
        if not isinstance(member, cst.Subscript):
            return None
        shape = _GENERICS.get((dotted(member.value) or "").rpartition(".")[2].lower())
        parts = [element.slice.value for element in member.slice if isinstance(element.slice, cst.Index)]
        if shape is None or not parts:
            return None
        item = parts[-1] if shape is Shape.DICT or not isinstance(parts[-1], cst.Ellipsis) else parts[0]
        value = self._annotated(cst.Annotation(item), frame, parameter)
        return None if value is None else Container(shape, [value])

    # Statements

    def run_suite(self, suite: cst.BaseSuite) -> None:
        """Run the statements of a block."""
        self.run(suite.body)

    def run(self, statements: Sequence[cst.BaseStatement | cst.BaseSmallStatement]) -> None:
        """Run statements one after another, until one leaves the function or the loop."""
        for statement in statements:
            if self.frame.done or self.statements_left <= 0:
                return
            if isinstance(statement, cst.SimpleStatementLine):
                self.run(statement.body)
            else:
                self.statements_left -= 1
                self._run_one(statement)

    def _run_one(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Assign):
            value = self.evaluate(node.value)
            for target in node.targets:
                self._assign(target.target, value, node, node.value)
        elif isinstance(node, cst.AnnAssign):
            if node.value is not None:
                self.bind(node.target, self.evaluate(node.value), node, node.value)
        elif isinstance(node, cst.AugAssign):
            self._augmented(node)
        elif isinstance(node, cst.Expr):
            self._expression(node)
        elif isinstance(node, cst.Return):
            self.frame.returned.append(self.evaluate(node.value) if node.value is not None else Scalar(None))
            self.frame.done = True
        elif isinstance(node, cst.If):
            self._if(node)
        elif isinstance(node, cst.For):
            self._for(node)
        elif isinstance(node, cst.While):
            self.note_use(self.evaluate(node.test), Handling.HARMLESS, node)
            self._loop(node.body, node.orelse)
        elif isinstance(node, cst.With):
            devices = 0
            for item in node.items:
                value = self.evaluate(item.item)
                devices += isinstance(value, Device)
                if item.asname is not None and isinstance(item.asname.name, cst.BaseExpression):
                    self.bind(item.asname.name, value, node, None)
            self.default_devices += devices
            self.run_suite(node.body)
            self.default_devices -= devices
        elif isinstance(node, cst.Try | cst.TryStar):
            self._try(node)
        elif isinstance(node, cst.Match):
            self.evaluate(node.subject)
            self._branches([case.body for case in node.cases])
        elif isinstance(node, cst.FunctionDef):
            captured = self.captured(node.body)
            function = FunctionValue(node, self.frame.statement, None, None, captured)
            self.frame.names[node.name.value] = function
            captured[node.name.value] = function
        elif isinstance(node, cst.ClassDef):
            known = self.model.class_of(node)
            self.frame.names[node.name.value] = ClassValue(known) if known is not None else UNKNOWN
        elif isinstance(node, cst.Import | cst.ImportFrom):
            self._import(node)
        elif isinstance(node, cst.Raise | cst.Break | cst.Continue):
            self.frame.done = True
        elif isinstance(node, cst.Del):
            self._delete(node.target)
        elif isinstance(node, cst.Assert):
            self.evaluate(node.test)

    def _assign(
        self, target: cst.BaseExpression, value: Value, statement: cst.Assign, expression: cst.BaseExpression
    ) -> None:
        """Assign; of `a, b = [], []`, element by element."""
        kinds = (cst.Tuple, cst.List)
        if (
            isinstance(target, kinds)
            and isinstance(expression, kinds)
            and isinstance(value, Container)
            and value.exact
            and len(target.elements) == len(expression.elements) == len(value.items)
            and not any(isinstance(element, cst.StarredElement) for element in target.elements)
        ):
            for element, item, part in zip(target.elements, value.items, expression.elements, strict=True):
                self._element = True
                self.bind(element.value, item, statement, part.value)
                self._element = False
        else:
            self.bind(target, value, statement, expression)

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        from torchstray.semantics.names import imported

        for name, target in imported(node):
            if name != "*":
                self.frame.names[name] = Qualified(target)

    def _delete(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Attribute) and self._is_self(target.value) and self.facts is not None:
            self.facts.live.pop(target.attr.value, None)

    def _is_self(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and isinstance(self.frame.names.get(node.value), SelfValue)

    def _expression(self, node: cst.Expr) -> None:
        value = self.evaluate(node.value)
        call = node.value
        if isinstance(call, cst.Call):
            self._discarded(call, value)
            self._in_place(call, value)
        elif isinstance(call, cst.Tuple | cst.List) and isinstance(value, Container):
            for element, item in zip(call.elements, value.items, strict=False):
                if isinstance(element.value, cst.Call):
                    self._discarded(element.value, item, alone=False)
        elif isinstance(call, cst.ListComp | cst.DictComp | cst.SetComp) and isinstance(value, Container):
            self._discarded_comprehension(call, value)

    def _discarded_comprehension(self, node: cst.ListComp | cst.DictComp | cst.SetComp, value: Container) -> None:
        """`[t.to(device) for t in batch]` as a statement."""
        item = node.value if isinstance(node, cst.DictComp) else node.elt
        source = node.for_in.iter
        if isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute):
            source = source.func.value
        moved = item in self.moved_receivers or self._all_moved(value)
        if moved and isinstance(item, cst.Call) and isinstance(source, cst.Name) and self._missed(source, node):
            known = self.moved_receivers.get(item)
            if known is None or all(isinstance(option, Tensor | Moved) for option in options_of(known)):
                self.discarded.append(DiscardedMove(self.place(node), source, gives=value.shape.value, plain=False))

    def _in_place(self, call: cst.Call, value: Value) -> None:
        """`t.requires_grad_()` as a statement changes `t` itself."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in {"requires_grad_", "detach_"}:
            self._becomes(call.func.value, value)

    def _becomes(self, receiver: cst.BaseExpression, value: Value) -> None:
        """The tensor that a name or attribute holds has changed in place to `value`."""
        if isinstance(receiver, cst.Name) and isinstance(self.frame.names.get(receiver.value), Tensor):
            self.frame.names[receiver.value] = value
        elif isinstance(receiver, cst.Attribute) and self._is_self(receiver.value) and self.facts is not None:
            stores = self.facts.live.get(receiver.attr.value, ())
            if len(stores) == 1 and isinstance(stores[0].value, Tensor) and isinstance(value, Tensor):
                changed = replace(stores[0], value=replace(value, strays=frozenset()))
                self.facts.stores[self.facts.stores.index(stores[0])] = changed
                self.facts.live[receiver.attr.value] = (changed,)

    def _augmented(self, node: cst.AugAssign) -> None:
        old, more = self.evaluate(node.target), self.evaluate(node.value)
        results: list[Value] = []
        for option in options_of(old):
            if isinstance(option, Container) and isinstance(node.operator, cst.AddAssign | cst.BitOrAssign):
                self.extend(option, more, node)
                results.append(option)
            elif isinstance(option, ModuleInstance):
                results.append(option)
            else:
                results += [self.operation(option, other, node.operator, node) for other in options_of(more)[:4]]
        value = one_of(results)
        if any(isinstance(option, Container | ModuleInstance) for option in options_of(value)) and not isinstance(
            node.target, cst.Name
        ):
            return
        self.bind(node.target, value, node, node.value)

    # Branches and loops

    def _take(self) -> _Paths:
        live = dict(self.facts.live) if self.facts is not None else {}
        initialised = self.facts.initialised if self.facts is not None else True
        return _Paths(dict(self.frame.names), live, initialised, self.frame.done)

    def _restore(self, paths: _Paths) -> None:
        self.frame.names = dict(paths.names)
        self.frame.done = paths.done
        if self.facts is not None:
            self.facts.live = dict(paths.live)
            self.facts.initialised = paths.initialised

    def _join(self, ends: list[_Paths]) -> None:
        going = [end for end in ends if not end.done]
        merged = going or ends
        names: dict[str, Value] = {}
        for end in merged:
            for name, value in end.names.items():
                names[name] = one_of([names[name], value]) if name in names and names[name] is not value else value
        live: dict[str, tuple[Store, ...]] = {}
        for end in ends:
            for attribute, stores in end.live.items():
                live[attribute] = tuple(dict.fromkeys(live.get(attribute, ()) + stores))
        self._restore(_Paths(names, live, all(end.initialised for end in merged), not going))

    def _branches(
        self, suites: Iterable[cst.BaseSuite | cst.If | None], known: Sequence[Mapping[str, Value]] = ()
    ) -> bool:
        """Run each of `suites` from the present state, with the names that are `known` in it, and go on from where
        all end. Return whether one of them leaves the function or the loop."""
        start = self._take()
        ends: list[_Paths] = []
        for number, suite in enumerate(suites):
            self._restore(start)
            self.frame.names.update(known[number] if number < len(known) else {})
            if isinstance(suite, cst.If):
                self._if(suite)
            elif suite is not None:
                self.run_suite(suite)
            ends.append(self._take())
        self._join(ends)
        return any(end.done for end in ends)

    def _if(self, node: cst.If) -> None:
        self.note_use(self.evaluate(node.test), Handling.HARMLESS, node)
        guards = self.frame.guards
        self.frame.guards = (*guards, node.test)
        orelse = node.orelse.body if isinstance(node.orelse, cst.Else) else node.orelse
        left = self._branches([node.body, orelse], [self.narrowed(node.test, True), self.narrowed(node.test, False)])
        self.frame.guards = guards
        if left:
            self.frame.passed = (*self.frame.passed, node.test)

    def _for(self, node: cst.For) -> None:
        iterated = self.evaluate(node.iter)
        self.bind(node.target, self.iterate(iterated, node), node, None)
        self.frame.for_loops.append(node)
        self._loop(node.body, node.orelse)
        self.frame.for_loops.pop()
        self._moved_loop_variables(node)

    def _loop(self, body: cst.BaseSuite, orelse: cst.Else | None) -> None:
        before = self._take()
        self.frame.loops += 1
        self.run_suite(body)
        self.frame.loops -= 1
        self.frame.done = False
        after = self._take()
        self._join([_Paths(before.names, after.live, after.initialised, False), after])
        if orelse is not None:
            self.run_suite(orelse.body)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        start = self._take()
        guards = self.frame.guards
        self.frame.guards = (*guards, _TRIED)
        self.run_suite(node.body)
        self.frame.guards = guards
        if node.orelse is not None and not self.frame.done:
            self.run_suite(node.orelse.body)
        ends = [self._take()]
        for handler in node.handlers:
            self._restore(start)
            self.frame.guards = (*guards, _HANDLED)
            self.run_suite(handler.body)
            self.frame.guards = guards
            ends.append(self._take())
        self._join(ends)
        if node.finalbody is not None:
            self.run_suite(node.finalbody.body)

    # Assignments

    def bind(
        self, target: cst.BaseExpression, value: Value, statement: cst.CSTNode, expression: cst.BaseExpression | None
    ) -> None:
        if isinstance(target, cst.Name):
            self.frame.names[target.value] = value
            if expression is not None:
                for option in options_of(value):
                    if isinstance(option, Tensor) and option.made is not None:
                        self.assigned[id(option.made.node)] = (self.place(target), self.place(statement), expression)
        elif isinstance(target, cst.Attribute):
            self._bind_attribute(target, value, statement, expression)
        elif isinstance(target, cst.Subscript):
            self._bind_item(target, value, statement)
        elif isinstance(target, cst.Tuple | cst.List):
            self._unpack(target.elements, value, statement)
        elif isinstance(target, cst.StarredElement):
            self.bind(target.value, Container(Shape.LIST, [self.iterate(value, target)]), statement, None)

    def _unpack(self, elements: Sequence[cst.BaseElement], value: Value, statement: cst.CSTNode) -> None:
        starred = any(isinstance(element, cst.StarredElement) for element in elements)
        for position, element in enumerate(elements):
            parts: list[Value] = []
            for option in options_of(value):
                if isinstance(option, Container) and option.exact and not starred:
                    parts.append(option.at(Scalar(position)))
                elif (
                    isinstance(option, Container)
                    and option.shape is not Shape.DICT
                    and not isinstance(element, cst.StarredElement)
                ):
                    parts.append(option.one_element())
                else:
                    parts.append(self.iterate(option, element))
            part = one_of(parts)
            if isinstance(element, cst.StarredElement):
                part = Container(Shape.LIST, [part])
            self.bind(element.value, part, statement, None)

    def _bind_item(self, target: cst.Subscript, value: Value, statement: cst.CSTNode) -> None:
        holder = self.evaluate(target.value)
        key = self._index(target)
        for option in options_of(holder):
            if isinstance(option, Container):
                option.items.append(value)
                option.keys.append(key)
                option.exact = False
                option.grown_at.append(self.place(statement))
                self._note_item(option, key, value, target)
            elif isinstance(option, ModuleInstance):
                option.children.append(value)
                for module in modules_in([value]):
                    module.inner = not option.registered or self.phase is not Phase.FORWARD
                    if option.registered:
                        module.register()
                for parameter in parameters_in([value]):
                    parameter.registered = True
            elif isinstance(option, Tensor | Input):  # a copy, whatever the devices
                self.note_use(option, Handling.HARMLESS, statement)
                self.note_use(value, Handling.HARMLESS, statement)
                if any(self.is_placed(part) for part in options_of(value)):
                    self.note_fate(option, Fate.COLLECTS, statement)

    def _note_item(self, holder: Container, key: Value, value: Value, target: cst.Subscript) -> None:
        if self.facts is not None and self.phase is Phase.FORWARD:
            for attribute in sorted(holder.owners):
                item = KeptItem(
                    attribute, key, value, self.place(target), self.frame.function, self.guards, self._near()
                )
                self.facts.kept_items.append(item)

    def _bind_attribute(
        self, target: cst.Attribute, value: Value, statement: cst.CSTNode, expression: cst.BaseExpression | None
    ) -> None:
        name = target.attr.value
        holder = self.evaluate(target.value)
        for option in options_of(holder):
            if isinstance(option, SelfValue):
                how = How.UNPACK if expression is None else How.ELEMENT if self._element else How.ASSIGN
                self._keep(name, value, how, target, statement, expression)
            elif isinstance(option, Instance):
                option.attributes[name] = value
            elif isinstance(option, ModuleInstance):
                option.attributes[name] = value
                layer = target.value
                held = isinstance(layer, cst.Attribute) and self._is_self(layer.value)
                if held and isinstance(layer, cst.Attribute) and isinstance(value, Tensor) and expression is not None:
                    self._keep(f"{layer.attr.value}.{name}", value, How.ASSIGN, target, statement, expression)
                for module in modules_in([value] if isinstance(value, ModuleInstance) else ()):
                    option.children.append(module)
                    module.inner = True
                    if option.registered:
                        module.register()
            elif isinstance(option, Tensor) and name == "requires_grad":
                flag = isinstance(value, Scalar) and value.literal is True
                self._becomes(target.value, replace(option, requires_grad=flag))

    def store(self, attribute: str, value: Value, node: cst.CSTNode) -> None:
        expression = node.args[-1].value if isinstance(node, cst.Call) else None
        self._keep(attribute, value, How.SETATTR, node, node, expression)

    def _keep(
        self,
        name: str,
        value: Value,
        how: How,
        target: cst.CSTNode,
        statement: cst.CSTNode,
        expression: cst.BaseExpression | None,
    ) -> None:
        facts = self.facts
        if facts is None:
            return
        setter = facts.cls.find_setter(name)
        if setter is not None:
            owner, method = setter
            function = FunctionValue(method, owner.statement, owner, SelfValue(facts.cls))
            self.call_function(function, Arguments((value,)), statement)
            return
        kept = False
        for option in options_of(value):
            if isinstance(option, ModuleInstance | Parameter):
                kept = True
                self._register_value(name, option, target)
        renewed = not kept and any(isinstance(option, Tensor | Input) for option in options_of(value))
        if renewed and (name in facts.registered or self._is_buffer(name)):
            return
        store = Store(
            name,
            value,
            how,
            self.place(target),
            self.place(statement),
            expression,
            self.phase,
            facts.live.get(name, ()),
            self.frame.function,
            self._in_loop(),
            self._lazily(),
            self.guards,
            self._near(),
        )
        facts.stores.append(store)
        facts.live[name] = (store,)

    def _is_buffer(self, name: str) -> bool:
        """Whether an attribute holds an `nn.Buffer`, so that a tensor assigned to it becomes its new value."""
        assert self.facts is not None
        values = [option for store in self.facts.live.get(name, ()) for option in options_of(store.value)]
        return bool(values) and all(isinstance(value, Parameter) and value.buffer for value in values)

    def _register_value(self, name: str, value: ModuleInstance | Parameter, target: cst.CSTNode) -> None:
        facts = self.facts
        assert facts is not None
        if not facts.initialised and self.phase is Phase.INIT:
            facts.early.append(Early(name, self.place(target), never=False))
        if isinstance(value, ModuleInstance):
            value.register()
        else:
            value.registered = True
        facts.instance.children.append(value)

    def register(self, name: str, kind: str, value: Value, node: cst.Call) -> None:
        facts = self.facts
        if facts is None:
            return
        if not facts.initialised and self.phase is Phase.INIT:
            facts.early.append(Early(name, self.place(node), never=False))
        facts.live.pop(name, None)
        facts.registered[name] = value
        facts.registrations.append(Registration(name, kind, value, self.place(node)))
        for option in options_of(value):
            if isinstance(option, ModuleInstance):
                option.register()
                facts.instance.children.append(option)
            elif isinstance(option, Parameter):
                option.registered = True
                facts.instance.children.append(option)
            elif isinstance(option, Tensor) and option.source in {Source.CONSTANT, Source.RANDOM}:
                # A buffer that was handed in is already where its owner put it.
                state = State(parameters=False, buffers=True, mode=False)
                facts.instance.children.append(ModuleInstance("buffer", state, registered=True, inner=True))
            elif option is UNKNOWN and kind == "buffer":
                facts.registered[name] = Tensor(Source.DATA)

    def _in_loop(self) -> bool:
        return any(frame.loops for frame in self.frames)

    def _lazily(self) -> bool:
        return any(_asks_for_attribute(guard) for frame in self.frames for guard in frame.guards)

    def built(self, value: ModuleInstance | Parameter) -> None:
        if self.facts is not None and self.phase is Phase.FORWARD:
            first = self.frames[0].function
            entry = first.node.name.value if first and isinstance(first.node, cst.FunctionDef) else "forward"
            self.facts.built.append(Built(value, entry, self.frame.function, self._in_loop(), self._lazily()))

    # Modules

    def class_state(self, cls: ClassModel) -> State | None:
        return self.model.state_of(cls)

    def module_init(self, arguments: Arguments, node: cst.Call) -> None:
        facts = self.facts
        if facts is None:
            return
        path = (*self.calls, self.place(node))
        if facts.initialised and facts.init_path and self.phase is Phase.INIT:
            lost = [
                attribute
                for attribute, stores in facts.live.items()
                if any(
                    isinstance(option, ModuleInstance | Parameter)
                    for store in stores
                    for option in options_of(store.value)
                )
            ] + list(facts.registered)
            differs = next(
                (new for old, new in zip(facts.init_path, path, strict=False) if old.node is not new.node), None
            )
            if lost and differs is not None:
                facts.emptied.append(Emptied(differs, differs, tuple(dict.fromkeys(lost))))
        facts.initialised = True
        facts.init_path = path
        for value in arguments.values():
            for option in options_of(value):
                for module in modules_in([option]):
                    module.register()
                    facts.instance.children.append(module)
                for parameter in parameters_in([option]):
                    parameter.registered = True
                    facts.instance.children.append(parameter)

    # Moves whose result is lost

    def _moved(self, of: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        self.moved_receivers[node] = of
        return super()._moved(of, name, arguments, node)

    def _unknown_call(self, arguments: Arguments, node: cst.Call) -> Value:
        value = super()._unknown_call(arguments, node)
        if isinstance(node.func, cst.Attribute) and self._is_self(node.func.value) and self.facts is not None:
            self.facts.called.add(node.func.attr.value)
        if isinstance(node.func, cst.Attribute) and self.moves(node.func.attr.value, arguments):
            return Moved()
        return value

    def _discarded(self, call: cst.Call, value: Value, alone: bool = True) -> None:
        """Note the call, a statement or (if not `alone`) an element of one, if it moves something that nobody keeps."""
        if isinstance(call.func, cst.Attribute) and (call in self.moved_receivers or isinstance(value, Moved)):
            receiver = _root(call.func.value)
            known = self.moved_receivers.get(call)
            if receiver is None or isinstance(self.evaluate(receiver), Qualified):
                return
            if not self._missed(receiver, call) or not self._provably_tensor(call.func.value, known):
                return
            if known is not None:
                self.note_fate(known, Fate.SPARED, call)  # what is wrong is that the result is lost
            if alone:
                self._note_discarded(call, receiver)
            else:
                self.discarded.append(DiscardedMove(self.place(call), receiver, assignable=False, alone=False))
        elif call.args and isinstance(call.args[0].value, cst.Name) and self._missed(call.args[0].value, call):
            argument = call.args[0].value
            if isinstance(value, Container) and value.items and self._all_moved(value):
                self.discarded.append(DiscardedMove(self.place(call), argument, gives=value.shape.value))
            elif isinstance(function := self.evaluate(call.func), FunctionValue) and _only_moves(function.node):
                self.discarded.append(DiscardedMove(self.place(call), argument, gives="object"))

    def _note_discarded(self, call: cst.Call, receiver: cst.BaseExpression) -> None:
        """Note a lost move; of a loop variable that is not read again, what it was taken from is what should have
        moved."""
        loop = next((loop for loop in reversed(self.frame.for_loops) if _is_target(loop, receiver)), None)
        later = 0
        if loop is not None and isinstance(receiver, cst.Name):
            names = [name for node in _after(loop, call) for name in names_in(node)]
            later = names.count(receiver.value)
        if loop is None or later or not isinstance(receiver, cst.Name):
            assignable = self._assignable(receiver)
            plain = isinstance(call.func, cst.Attribute) and call.func.value is receiver
            self.discarded.append(DiscardedMove(self.place(call), receiver, assignable=assignable, plain=plain))
        else:
            item = self._item_text(loop, receiver.value)
            self.discarded.append(DiscardedMove(self.place(call), receiver, assignable=False, item=item))

    def _item_text(self, loop: cst.For, name: str) -> str | None:
        enumerated = loop.iter.args[0].value if isinstance(loop.iter, cst.Call) and loop.iter.args else None
        holders = options_of(self.evaluate(enumerated)) if enumerated is not None else ()
        listed = all(isinstance(holder, Container) and holder.shape is Shape.LIST for holder in holders)
        return _item_text(loop, name, enumerable=bool(holders) and listed)

    def _all_moved(self, value: Container) -> bool:
        return all(isinstance(option, Moved) for item in value.items for option in options_of(item))

    def _missed(self, receiver: cst.BaseExpression, call: cst.BaseExpression) -> bool:
        """Whether anything else uses what has not moved."""
        if not isinstance(receiver, cst.Name):
            return True
        function = self.frame.function
        statements = self.model.document.statements
        around = [function.node.body] if function is not None else [statement.tree for statement in statements]
        handed_in = function is not None and any(
            parameter.name.value == receiver.value for parameter in function.node.params.params
        )
        elsewhere = sum(name == receiver.value for node in around for name in names_in(node))
        return elsewhere > sum(name == receiver.value for name in names_in(call)) + (not handed_in)

    def _assignable(self, receiver: cst.BaseExpression) -> bool | None:
        """Whether `receiver = …` works: not for an item of a tuple, and nobody knows for an item of something
        unknown."""
        if not isinstance(receiver, cst.Subscript):
            return True
        holders = options_of(self.evaluate(receiver.value))
        if all(isinstance(holder, Container) and holder.shape in {Shape.LIST, Shape.DICT} for holder in holders):
            return True
        fixed = any(
            isinstance(holder, Batch) or (isinstance(holder, Container) and holder.shape is Shape.TUPLE)
            for holder in holders
        )
        return False if fixed else None

    def _provably_tensor(self, receiver: cst.BaseExpression, value: Value | None) -> bool:
        known = value if value is not None else self.evaluate(receiver)
        options = options_of(known)
        if all(isinstance(option, Tensor) and option.alias is None for option in options):
            return True
        if all((isinstance(option, Input) and option.proven) or isinstance(option, Tensor) for option in options):
            return True
        return isinstance(receiver, cst.Name) and receiver.value in self.model.arithmetic_names(self.frame.function)

    def _moved_loop_variables(self, loop: cst.For) -> None:
        targets = set(names_in(loop.target))
        for line, after in _lines(loop.body.body):
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                continue
            assign = line.body[0]
            if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
                continue
            name, call = assign.targets[0].target, assign.value
            if not (isinstance(name, cst.Name) and name.value in targets and isinstance(call, cst.Call)):
                continue
            if not (isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name)):
                continue
            receiver = self.moved_receivers.get(call)
            if call.func.value.value != name.value or receiver is None:
                continue
            later = {found for statement in after for found in names_in(statement)}
            if name.value not in later and all(isinstance(option, Tensor) for option in options_of(receiver)):
                item = self._item_text(loop, name.value)
                self.discarded.append(
                    DiscardedMove(self.place(call), call.func.value, assigned=self.place(assign), item=item)
                )

    def optimizer(self, arguments: Arguments, node: cst.Call) -> None:
        given = arguments.get(0, "params")
        for option in contents(given) if given is not None else ():
            if not isinstance(option, Tensor) or option.leaf or option.made is None or option.alias is not None:
                continue
            if option.requires_grad and id(option.made.node) in self.assigned:
                target, statement, expression = self.assigned[id(option.made.node)]
                self.non_leaves.append(NonLeaf(target, statement, expression, option, self.place(node)))


def _is_target(loop: cst.For, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in set(names_in(loop.target))


def _after(loop: cst.For, call: cst.Call) -> Iterator[cst.CSTNode]:
    """The statements of a loop's block behind the one that holds `call`, whatever the depth."""

    def after(statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        for position, statement in enumerate(statements):
            if holds(statement, call):
                yield from statements[position + 1 :]
                for block in blocks(statement):
                    yield from after(block.body)

    yield from after(loop.body.body)


def _lines(
    statements: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode] = ()
) -> Iterator[tuple[cst.CSTNode, list[cst.CSTNode]]]:
    """The statements of a block, those of its inner blocks included, each with all that follow it."""
    for position, statement in enumerate(statements):
        rest = [*statements[position + 1 :], *after]
        yield statement, rest
        for block in blocks(statement):
            yield from _lines(block.body, rest)


def _only_moves(function: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether a function does nothing but return its argument, or a copy of it made of moved parts: the usual
    `to_device`."""
    if not isinstance(function, cst.FunctionDef):
        return False
    nodes = list(walk(function.body))
    returned = [node.value for node in nodes if isinstance(node, cst.Return) and node.value is not None]
    changes = any(
        isinstance(node, cst.AssignTarget | cst.AugAssign) and not isinstance(node.target, cst.Name) for node in nodes
    )
    statements = any(isinstance(node, cst.Expr) and not isinstance(node.value, cst.SimpleString) for node in nodes)
    moved = any(
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in {"to", "cuda"}
        for value in returned
    )
    return moved and len(returned) > 1 and not changes and not statements


def _root(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The name, attribute or item whose methods lead to `node`: `x` of `x.float()`; None where there is none."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        node = node.func.value
    return node if dotted(node) is not None or isinstance(node, cst.Subscript) else None


def _names_device(value: Value) -> bool:
    """Whether an argument makes a cache tell devices apart: a device, or a tensor."""
    return any(
        isinstance(held, Device | Tensor) or (isinstance(held, Input) and held.proven) for held in contents(value)
    )


def _without_strays(value: Value) -> Value:
    """`value` as another class sees it: it does not know this class's attributes."""
    return one_of(
        replace(option, strays=frozenset()) if isinstance(option, Tensor) else option for option in options_of(value)
    )


def is_cache(names: FileNames, decorator: cst.BaseExpression) -> bool:
    """Whether a decorator keeps what a function returns: `functools.lru_cache`, with or without arguments."""
    name = dotted(decorator.func if isinstance(decorator, cst.Call) else decorator)
    if name is None:
        return False
    head, _, rest = name.partition(".")
    full = names.qualified(head) or head
    return (f"{full}.{rest}" if rest else full) in {"functools.cache", "functools.lru_cache"}


def function_body(function: FunctionValue) -> cst.BaseExpression:
    """The expression of a lambda."""
    assert isinstance(function.node, cst.Lambda)
    return function.node.body


def _union(node: cst.BaseExpression) -> Iterable[cst.BaseExpression]:
    """The members of an annotation such as `Optional[torch.Tensor]`, `Union[float, Tensor]` or `torch.Tensor |
    None`."""
    if isinstance(node, cst.BinaryOperation):
        yield from _union(node.left)
        yield from _union(node.right)
    elif isinstance(node, cst.Subscript) and (dotted(node.value) or "").rpartition(".")[2] in {"Optional", "Union"}:
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                yield from _union(element.slice.value)
    else:
        yield node


def _asks_for_attribute(test: cst.BaseExpression) -> bool:
    """Whether a test asks if an attribute of `self` is there yet: `not hasattr(self, …)`, `self.x is None`, `not
    self.built`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = test.expression
        called = isinstance(inner, cst.Call) and dotted(inner.func) == "hasattr"
        return called or ((dotted(inner) or "").startswith("self.") and dotted(inner) != "self.training")
    if isinstance(test, cst.Comparison) and (dotted(test.left) or "").startswith("self."):
        return any(isinstance(part.operator, cst.Is) for part in test.comparisons)
    if isinstance(test, cst.Comparison):
        return any(
            isinstance(part.operator, cst.NotIn) and (dotted(part.comparator) or "").startswith("self.")
            for part in test.comparisons
        )
    if isinstance(test, cst.BooleanOperation):
        return _asks_for_attribute(test.left) or _asks_for_attribute(test.right)
    return False


def _item_text(loop: cst.For, name: str, enumerable: bool) -> str | None:
    """How a loop over `mapping.items()`, or over `enumerate(items)` of a list, reaches its item: `mapping[key]`."""
    if not (isinstance(loop.target, cst.Tuple) and len(loop.target.elements) == 2 and isinstance(loop.iter, cst.Call)):
        return None
    key, value = (dotted(element.value) for element in loop.target.elements)
    if value != name or key is None:
        return None
    holder: str | None = None
    if isinstance(loop.iter.func, cst.Attribute) and loop.iter.func.attr.value == "items":
        holder = dotted(loop.iter.func.value)
    elif enumerable and dotted(loop.iter.func) == "enumerate" and len(loop.iter.args) == 1:
        holder = dotted(loop.iter.args[0].value)
    return f"{holder}[{key}]" if holder is not None else None
