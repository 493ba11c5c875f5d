"""Where the modules and the data of a script are: what it moves to a device, and what it leaves behind."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchstray.semantics import ecosystem, torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.conditions import (
    ALWAYS,
    Reader,
    contradictory,
    on_cuda,
    speaks_of_devices,
)
from torchstray.semantics.facts import Attached, Binding, FunctionNode, Late, Left, Unmoved
from torchstray.semantics.movers import (
    device_kind,
    feeds,
    is_device,
    is_given_device,
    mentions,
    moves_itself,
    takes_care,
)
from torchstray.semantics.names import dotted, walk
from torchstray.semantics.values import (
    UNKNOWN,
    Arguments,
    Batch,
    ClassValue,
    Conditions,
    Container,
    Device,
    FunctionValue,
    Home,
    Input,
    Instance,
    Method,
    ModuleInstance,
    Moved,
    Optimizer,
    Parameter,
    Part,
    Place,
    Placed,
    Put,
    Qualified,
    Scalar,
    SelfValue,
    Shape,
    SuperValue,
    Tensor,
    Value,
    contents,
    modules_in,
    options_of,
    parameters_in,
)

if TYPE_CHECKING:
    from torchstray.semantics.interpret import Interpreter

_MOST_STATES = 8
_LEAVING = frozenset({"cpu", "numpy", "tolist", "item"})
_ADDING = frozenset({"add_module", "register_module", "append", "insert", "extend", "update"})
_KEEPING = frozenset({"as_tensor", "asarray"})  # factories whose result stays where the data is
_DATA = (Tensor, Input, Moved, Placed)
# What of torch moves, or may move, the modules it is given.
_TORCH_MOVERS = (
    "torch.nn.parallel.",
    "torch.nn.DataParallel",
    "torch.distributed.",
    "torch.jit.trace",
    "torch.export.",
)
_HARMLESS_PACKAGES = (sys.stdlib_module_names | {"numpy", "tqdm"}) - {
    "asyncio",
    "concurrent",
    "multiprocessing",
    "pickle",
    "threading",
}
_DEVICES = frozenset({"torch.accelerator.current_accelerator", "torch.get_default_device"})
_HARMLESS = frozenset({"wandb.watch"})


class Side(enum.Enum):
    """Where a module is: still where it was built, moved, or nobody knows."""

    HERE = enum.auto()
    MOVED = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True)
class Where:
    """Where a module is under some conditions; `by` is the call that has moved it."""

    side: Side
    conditions: Conditions = ALWAYS
    by: Place | None = field(default=None, compare=False)


_NOBODY_KNOWS = (Where(Side.UNKNOWN),)


@dataclass(frozen=True)
class Snapshot:
    """What differs between branches: where each module is, and which optimizer has its parameters."""

    states: dict[object, tuple[Where, ...]] = field(default_factory=dict)
    optimized: dict[object, Optimizer] = field(default_factory=dict)


@dataclass(eq=False)
class Branch:
    """A branch of `node` in `function`, taken where `test` comes out as `outcome`. Its conditions are worked out when
    they are first asked for, in the frame that it stands in."""

    node: cst.CSTNode
    function: FunctionNode
    test: cst.BaseExpression
    outcome: bool
    reader: Reader

    @cached_property
    def conditions(self) -> Conditions:
        """What holds in it."""
        return self.reader.of(self.test, self.outcome)


class Placement:
    """What one run of a script, function or method does with its modules and its data. A run that goes on from
    another, `before`, starts with what is known at its end."""

    def __init__(self, interpreter: Interpreter, before: Placement | None = None) -> None:
        self.interpreter = interpreter
        self.before = before
        self.states: dict[object, tuple[Where, ...]] = {}
        self.optimized: dict[object, Optimizer] = {}
        self.bindings: dict[object, list[Binding]] = {}
        self.attached: dict[object, list[tuple[ModuleInstance, Attached]]] = {}
        self.meanings: dict[tuple[object, str], list[cst.BaseExpression | None]] = {}
        self.waiting: list[Late] = []
        if before is not None:
            self.states.update(before.states)
            self.optimized.update(before.optimized)
            self.bindings.update({key: list(known) for key, known in before.bindings.items()})
            self.attached.update({key: list(known) for key, known in before.attached.items()})
            self.meanings.update({key: list(known) for key, known in before.meanings.items()})
            self.waiting += before.waiting
        self.visited: set[cst.CSTNode] = set()
        self.touched: set[object] = set()
        self.frozen: set[object] = set(before.frozen) if before is not None else set()
        self.executed: set[cst.CSTNode] = set(before.executed) if before is not None else set()
        self.moved_classes: set[ClassModel] = set()
        self.found: list[Unmoved] = []
        self.late: list[Late] = []
        self.used: list[Place] = []
        self.entry: FunctionNode = None
        self.choices = 1
        self._branches: list[Branch] = []
        self._contexts: list[Side] = []
        self._parameters: dict[cst.CSTNode, ModuleInstance] = {}
        self._reported: set[object] = set()
        self._reader = Reader(self._meaning, self._imported)
        self._moved_itself: Place | None = None
        self._optimized_itself: Place | None = None
        self._left: list[Left] = []

    # Where in the program we are

    @property
    def function(self) -> FunctionNode:
        """The function that is running."""
        function = self.interpreter.frame.function
        return function.node if function is not None else None

    @property
    def conditions(self) -> Conditions:
        """What holds on the way that has led here."""
        return frozenset(clause for branch in self._branches for clause in branch.conditions)

    def enter(self, node: cst.CSTNode, test: cst.BaseExpression, outcome: bool) -> Branch:
        """Go on in the branch of `node` that is taken where `test` comes out as `outcome`."""
        branch = Branch(node, self.function, test, outcome, self._reader)
        self._branches.append(branch)
        return branch

    def leave(self) -> None:
        """Come back from the branch that was entered last."""
        self._branches.pop()

    def enter_context(self, items: Iterable[tuple[cst.BaseExpression, Value]]) -> None:
        """Go on in the block of a `with` statement over `items`."""
        sides = {self._side_within(node, value) for node, value in items}
        known = (side for side in (Side.MOVED, Side.UNKNOWN) if side in sides)
        self._contexts.append(next(known, Side.HERE))

    def _side_within(self, node: cst.BaseExpression, value: Value) -> Side:
        """Where modules are that are built within `with node:`."""
        if all(isinstance(option, Device) for option in options_of(value)):
            return Side.HERE if all(device_kind(option) == "cpu" for option in options_of(value)) else Side.MOVED
        name = self._reader.text(node.func if isinstance(node, cst.Call) else node)
        harmless = name.startswith("torch.") or name.partition(".")[0] in _HARMLESS_PACKAGES or name == "open"
        return Side.HERE if harmless else Side.UNKNOWN

    def leave_context(self) -> None:
        """Come back from the block that was entered last."""
        self._contexts.pop()

    # Branches that meet

    def take(self) -> Snapshot:
        """What a branch may change."""
        return Snapshot(dict(self.states), dict(self.optimized))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to what was so."""
        self.states, self.optimized = dict(snapshot.states), dict(snapshot.optimized)

    def joined(self, ends: Sequence[tuple[Snapshot, Branch | None]]) -> Snapshot:
        """What is so at the end of these branches, None where nothing is known of when they are taken."""
        if len(ends) == 1:
            return ends[0][0]
        states: dict[object, tuple[Where, ...]] = {}
        for identity in dict.fromkeys(key for snapshot, _ in ends for key in snapshot.states):
            parts = [(snapshot.states[identity], branch) for snapshot, branch in ends if identity in snapshot.states]
            states[identity] = _union(parts)
        optimized = {
            identity: optimizer
            for identity, optimizer in ends[0][0].optimized.items()
            if all(identity in snapshot.optimized for snapshot, _ in ends)
        }
        return Snapshot(states, optimized)

    # Names

    def bound(
        self, target: cst.BaseExpression, value: Value, statement: cst.CSTNode, expression: cst.BaseExpression | None
    ) -> None:
        """Note that a name or attribute is assigned."""
        name = dotted(target)
        if name is None:
            return
        known = self.meanings.setdefault((self._scope(name), name), [])
        if not any(one is expression for one in known) or expression is None:
            known.append(expression)
        for option in options_of(value):
            if isinstance(option, ModuleInstance):
                place = self.interpreter.place(statement)
                self.bindings.setdefault(option.identity, []).append(Binding(name, place, self.function))

    def passed(self, function: FunctionValue, node: cst.CSTNode) -> None:
        """Note what the parameters of a function mean that the call `node` is about to run."""
        self.executed.add(function.node)
        _ = self.conditions  # which mean what they mean here, and not in the function
        if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
            return
        parameters = [parameter.name.value for parameter in function.node.params.params]
        if function.bound is not None:
            parameters = parameters[1:]
        given = dict(zip(parameters, (one.value for one in node.args if one.keyword is None), strict=False))
        given |= {one.keyword.value: one.value for one in node.args if one.keyword is not None}
        for name, expression in given.items():
            resolved = self._resolved(expression)
            if dotted(resolved) is None:
                self.meanings[function.node, name] = [resolved]
            else:
                self.meanings.pop((function.node, name), None)

    def _scope(self, name: str) -> object:
        owner = self.interpreter.frame.owner
        return owner if name.startswith("self.") and owner is not None else self.function

    def _meaning(self, name: str) -> cst.BaseExpression | None:
        head = name.partition(".")[0]
        scope = self._scope(name)
        known = self.meanings.get((scope, name))
        if known is None and scope is not None and head not in self.interpreter.frame.names:
            known = self.meanings.get((None, name))
        return known[0] if known is not None and len(known) == 1 else None

    def _imported(self, name: str) -> str | None:
        return None if name in self.interpreter.frame.names else self.interpreter.file_names.qualified(name)

    def _resolved(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The expression that a name was assigned, as far back as that is known."""
        for _ in range(8):
            name = dotted(node)
            known = self._meaning(name) if name is not None else None
            if known is None:
                break
            node = known
        return node

    # Data

    def put_in(self, values: Iterable[Value]) -> Put | None:
        """The move of some of the data among `values`."""
        waiting, seen = list(values), 0
        while waiting and seen < 200:
            seen += 1
            for option in options_of(waiting.pop(0)):
                if isinstance(option, _DATA) and option.put is not None:
                    return option.put
                if isinstance(option, Container):
                    waiting += option.items
        return None

    def with_put(self, value: Value, put: Put | None) -> Value:
        """`value` where it has been moved by `put`."""
        if isinstance(value, Tensor | Input | Moved):
            return value if value.put is put else replace(value, put=put)
        if isinstance(value, Placed) or value is UNKNOWN:
            return Placed(put) if put is not None else UNKNOWN
        if isinstance(value, Container):
            value.items = [self.with_put(item, put) for item in value.items]
        return value

    def _put(self, node: cst.Call, device: cst.BaseExpression | None, value: Value | None) -> Put | None:
        """The move that the call `node` makes to a device; None for the CPU, and where the device is that of something
        that has not moved. Without a device, it is CUDA's current one."""
        conditions, known = ALWAYS, True
        if value is None:
            conditions = on_cuda()
        else:
            options = options_of(value)
            resolved = self._resolved(device) if device is not None else None
            if isinstance(resolved, cst.Attribute) and resolved.attr.value == "device":
                of = self.interpreter.evaluate(resolved.value) if dotted(resolved.value) is not None else UNKNOWN
                if any(isinstance(option, (*_DATA, ModuleInstance, Method, Part, Batch)) for option in options_of(of)):
                    return self.put_in([of])
                if of is UNKNOWN and not self._is_settings(resolved.value):
                    return None
            if any(isinstance(option, _DATA) for option in options):
                return self.put_in([value])
            if any(isinstance(option, Device) and option.read for option in options):
                return None
            if any(isinstance(option, Method | ModuleInstance) for option in options):
                return None
            literals = [device_kind(option) for option in options]
            if all(literal == "cpu" for literal in literals):
                return None
            if None in literals or "cpu" in literals:
                decided = self._reader.device(device) if device is not None else None
                conditions, known = decided or ALWAYS, decided is not None
            elif all(literal == "cuda" for literal in literals):
                conditions = on_cuda()
        return self._put_under(conditions, known, node)

    def _put_under(
        self, conditions: Conditions, known: bool, node: cst.Call, test: cst.BaseExpression | None = None
    ) -> Put:
        guards = tuple(
            (branch.node, branch.outcome)
            for branch in self._branches
            if isinstance(branch.node, cst.If) and branch.function is self.function
        )
        return Put(self.interpreter.place(node), self.function, self.conditions | conditions, known, guards, test)

    def _put_by_type(self, kind: cst.BaseExpression, node: cst.Call) -> Put | None:
        """The move that the call `node` makes with a type of tensors such as `torch.cuda.FloatTensor`."""
        resolved = self._resolved(kind)
        if isinstance(resolved, cst.IfExp):
            on, off = (self._reader.text(arm).startswith("torch.cuda.") for arm in (resolved.body, resolved.orelse))
            if on is off:
                return None
            conditions = self._reader.of(resolved.test, on)
            return self._put_under(conditions | on_cuda(), True, node, resolved.test if on else None)
        if self._reader.text(resolved).startswith("torch.cuda."):
            return self._put_under(on_cuda(), True, node)
        options = options_of(self.interpreter.evaluate(kind)) if dotted(kind) is not None else ()
        names = [option.name for option in options if isinstance(option, Qualified)]
        if any(name.startswith("torch.cuda.") for name in names):
            return self._put_under(ALWAYS, False, node)
        return None

    def _is_settings(self, node: cst.BaseExpression) -> bool:
        """Whether a name of which nobody knows what it is has attributes that neither a tensor nor a module has."""
        name = dotted(node)
        if name is None:
            return False
        text = self.interpreter.model.document.text
        read = set(re.findall(rf"\b{re.escape(name)}\.(\w+)", text)) - {"device"}
        if re.search(rf"\b{re.escape(name)}\(", text) or any(torch_api.module_method(one) is not None for one in read):
            return False
        return any(torch_api.method(one) is None and torch_api.attribute(one) is None for one in read)

    def attribute(self, of: Placed | Moved, name: str, node: cst.CSTNode) -> Value:
        """What an attribute of moved data is."""
        if name == "device":
            return Device(read=True)
        if torch_api.attribute(name) == "other":
            return Scalar()
        if torch_api.method(name) is not None:
            return Method(of, name, self.interpreter.place(node))
        return Placed(of.put) if of.put is not None else UNKNOWN

    # Calls

    def calling(self, function: Value, arguments: Arguments, node: cst.Call) -> None:
        """Look at a call of a module before it is followed."""
        module = self._computing(function)
        if module is None:
            return
        self.visited.add(node)
        put = self.put_in(arguments.values()) or self._starred(node)
        if put is None or (module.cls is not None and takes_care(module.cls, function)):
            return
        if any(where.side is Side.UNKNOWN for where in self.states.get(module.identity, ())):
            return
        for culprit in self._members(module):
            states = self.states.get(culprit.identity, ())
            failing = next((where for where in states if where.side is Side.HERE and self._meet(where, put)), None)
            if failing is not None:
                self._report(module, culprit, failing, put, node, _receiver(function, node))
                return

    def _computing(self, function: Value) -> ModuleInstance | None:
        """The module whose parameters a call of `function` uses."""
        if isinstance(function, ModuleInstance):
            return function
        if isinstance(function, Part):
            return function.root
        if not isinstance(function, Method) or not isinstance(function.of, ModuleInstance):
            return None
        module, name = function.of, function.name
        if module.cls is None:
            return module if torch_api.module_method(name) is None or name == "forward" else None
        found = module.cls.find_method(name)
        layers = {
            attribute
            for attribute, stores in self.interpreter.model.facts(module.cls).live.items()
            if any(_has_layers(option) for store in stores for option in options_of(store.value))
        }
        if found is None:
            return module if name in layers else None
        return module if name == "forward" or feeds(module.cls, found[1], layers) else None

    def _starred(self, node: cst.Call) -> Put | None:
        return self.put_in(
            self.interpreter.evaluate(argument.value)
            for argument in node.args
            if argument.star and dotted(argument.value) is not None
        )

    def _members(self, module: ModuleInstance, seen: set[int] | None = None) -> Iterator[ModuleInstance]:
        """The modules whose tensors a call of `module` surely uses."""
        seen = set() if seen is None else seen
        if id(module.identity) in seen:
            return
        seen.add(id(module.identity))
        if _has_tensors(module, self.interpreter):
            yield module
        if module.cls is None and module.state is not None:
            for child in modules_in(module.children):
                yield from self._members(child, seen)
        for child, _ in self.attached.get(module.identity, ()):
            yield from self._members(child, seen)

    def _meet(self, where: Where, put: Put) -> bool:
        """Whether data may have moved by `put` while the module is as `where` says."""
        given = put.conditions | self.conditions
        if contradictory(where.conditions | given):
            return False
        extra = where.conditions - given
        if not speaks_of_devices(extra):
            return True
        return put.known and not speaks_of_devices(given - on_cuda())

    def _report(
        self,
        module: ModuleInstance,
        culprit: ModuleInstance,
        where: Where,
        put: Put,
        node: cst.Call,
        receiver: str | None,
    ) -> None:
        members = list(self._members(module))
        if culprit.identity in self._reported:
            return
        self._reported |= {member.identity for member in members}
        attached = next(
            (known for root in self.attached for child, known in self.attached[root] if child is culprit), None
        )
        interpreter = self.interpreter
        functions = [frame.function.node if frame.function is not None else None for frame in interpreter.frames]
        elsewhere = [one.by for one in self.states[culprit.identity] if one.side is Side.MOVED]
        self.found.append(
            Unmoved(
                call=interpreter.place(node),
                function=self.function,
                module=module,
                culprit=culprit,
                name=receiver,
                put=put,
                choices=self.choices,
                certain=where.conditions <= put.conditions | self.conditions,
                elsewhere=elsewhere[0] if elsewhere else None,
                attached=attached if attached is not None and attached.moved is not None else None,
                bindings=tuple(self.bindings.get(module.identity, ())),
                stack=tuple(zip(interpreter.calls, functions, strict=False)),
            )
        )

    def called(self, function: Value, arguments: Arguments, node: cst.Call, value: Value) -> Value:
        """Note what a call has done, and return its value with what is known of where it is."""
        if isinstance(function, Method):
            return self._method_called(function, arguments, node, value)
        if isinstance(function, Qualified):
            return self._import_called(function.name, arguments, node, value)
        if isinstance(function, ClassValue):
            self._constructed(function.cls, arguments, node, value)
        elif isinstance(function, ModuleInstance | Part):
            return self.with_put(value, self.put_in(arguments.values()) or self._starred(node))
        elif isinstance(function, FunctionValue | Instance):
            pass
        elif type(function) is Value or isinstance(function, Moved | Placed):
            return self._unknown_called(arguments, node, value)
        return value

    def _unknown_called(self, arguments: Arguments, node: cst.Call, value: Value) -> Value:
        self.escape(arguments.values())
        if isinstance(value, Moved) and isinstance(node.func, cst.Attribute):
            return self.with_put(value, self._moving(None, node.func.attr.value, arguments, node))
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "type" and len(node.args) == 1:
            return self.with_put(value, self._put_by_type(node.args[0].value, node))
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in {"parameters", "named_parameters"}:
            return self._parameters_of_unknown(node.func.value, node)
        return value

    def _parameters_of_unknown(self, receiver: cst.BaseExpression, node: cst.Call) -> Value:
        """`model.parameters()` of something unknown: it is a module, and is one from now on."""
        name = dotted(receiver)
        module = ModuleInstance(name or "module", None, self.interpreter.place(receiver), argument=True)
        if isinstance(receiver, cst.Name) and receiver.value in self.interpreter.frame.names:
            self.interpreter.frame.names[receiver.value] = module
        elif isinstance(receiver, cst.Attribute) and dotted(receiver.value) is not None:
            for holder in options_of(self.interpreter.evaluate(receiver.value)):
                if isinstance(holder, Instance):
                    holder.attributes[receiver.attr.value] = module
        place = self.interpreter.place(node)
        self._parameters[node] = module
        return Container(Shape.LIST, [Tensor(requires_grad=True, alias="parameter", made=place)])

    def _moving(self, put: Put | None, name: str, arguments: Arguments, node: cst.Call) -> Put | None:
        """The move that a method of this name makes of what `put` has moved before."""
        if name in _LEAVING:
            return None
        if name != "to":
            return self._put(node, None, None) if name != "type_as" else self.put_in(arguments.values())
        value = arguments.get(0, "device") or arguments.keywords.get("other")
        device = _argument(node, "device", "other")
        resolved = self._resolved(device) if device is not None else None
        if isinstance(resolved, cst.Attribute) and resolved.attr.value == "dtype":
            return put
        return None if value is None else self._put(node, device, value)

    def _method_called(self, method: Method, arguments: Arguments, node: cst.Call, value: Value) -> Value:
        of, name = method.of, method.name
        if isinstance(of, ModuleInstance):
            return self._module_method(of, name, arguments, node, value)
        if isinstance(of, Method | Part):
            root, known = root_of(of), torch_api.module_method(name)
            if root is None or known is None:
                return value
            if self.interpreter.moves_module(name, arguments):
                self.escape([root])
            return Part(root) if known.returns_self else value
        if isinstance(of, Optimizer):
            if name == "step":
                self._confirm(of, certain=True)
            elif name == "add_param_group":
                self.waiting = [late for late in self.waiting if late.optimizer is not of.place]
            return value
        if isinstance(of, (*_DATA, Batch)):
            if (
                name == "requires_grad_"
                and isinstance(of, Tensor)
                and node.args
                and dotted(node.args[0].value) == "False"
            ):
                self.freeze(of)
            if self.interpreter.moves(name, arguments):
                return self.with_put(
                    value, self._moving(of.put if not isinstance(of, Batch) else None, name, arguments, node)
                )
            if name == "type" and len(node.args) == 1:
                return self.with_put(value, self._put_by_type(node.args[0].value, node))
            if torch_api.method(name) is None or name in _LEAVING:
                self.escape(arguments.values())
                return value
            given = [of, *arguments.values()]
            put = (
                self._put(node, _argument(node, "device"), device)
                if (device := arguments.keywords.get("device"))
                else self.put_in(given)
            )
            return self.with_put(value, put)
        if isinstance(of, Container | SelfValue | SuperValue | ClassValue):
            return value
        self.escape(arguments.values())
        return value

    def _module_method(
        self, of: ModuleInstance, name: str, arguments: Arguments, node: cst.Call, value: Value
    ) -> Value:
        if self.interpreter.moves_module(name, arguments):
            self._move(of, name, arguments, node)
        elif name in {"parameters", "named_parameters"}:
            self._parameters[node] = of
        elif name == "load_state_dict" and any(mentions(argument.value, {"state_dict"}) for argument in node.args):
            self._freeze(of)  # the weights follow those of another
        elif name == "requires_grad_" and node.args and dotted(node.args[0].value) == "False":
            self._freeze(of)
        elif name in _ADDING:
            for argument in arguments.values():
                self.attach(of, argument, node, node, node.args[-1].value if node.args else None)
        elif name == "apply":
            function = arguments.get(0, "fn")
            if isinstance(function, FunctionValue) and mentions(function.node.body, {"to", "cuda"}):
                self.escape([of])
        elif torch_api.module_method(name) is None or name == "forward":
            self.escape(arguments.values())
            return self.with_put(value, self.put_in(arguments.values()))
        return value

    def _import_called(self, name: str, arguments: Arguments, node: cst.Call, value: Value) -> Value:
        if name.startswith("copy."):
            for argument, copy in zip(arguments.positional, [value], strict=False):
                if isinstance(argument, ModuleInstance) and isinstance(copy, ModuleInstance):
                    self._copied(argument, copy)
            return value
        if isinstance(value, ModuleInstance) and value.place is not None and value.place.node is node:
            self._built_by_import(name, arguments, node, value)
            return value
        if ecosystem.makes_module(name):
            state = torch_api.State(parameters=True, buffers=True, mode=True)
            made = ModuleInstance(name.rpartition(".")[2], state, self.interpreter.place(node))
            self.built(made)
            return made
        if name == "builtins.setattr" and len(arguments.positional) == 3:
            root = root_of(arguments.positional[0])
            if root is not None:
                self.attach(root, arguments.positional[2], node, node, node.args[2].value)
            return value
        if name in _DEVICES:
            return Device()
        if name.startswith("torch.cuda.") and name.endswith("Tensor"):
            return self.with_put(value, self._put_by_type(node.func, node))
        function = torch_api.function(name)
        if function is not None:
            device = arguments.keywords.get("device")
            last = name.rpartition(".")[2]
            if device is not None and function.device:
                return self.with_put(value, self._put(node, _argument(node, "device"), device))
            if not function.factory or last in _KEEPING:
                return self.with_put(value, self.put_in(arguments.values()))
            return value
        taken = self._taken(arguments)
        last = name.rpartition(".")[2]
        if torch_api.kind(name) == "optimizer" or (taken and last[:1].isupper()):
            return self._optimizer_built(arguments, node, taken)
        package = name.partition(".")[0]
        harmless = name in _HARMLESS or package in _HARMLESS_PACKAGES or package == "builtins"
        if not harmless and (package != "torch" or name.startswith(_TORCH_MOVERS)):
            self.escape(arguments.values())
        return value

    def _built_by_import(self, name: str, arguments: Arguments, node: cst.Call, module: ModuleInstance) -> None:
        """A layer of torch, or a module of another package, has been built."""
        if name.startswith(_TORCH_MOVERS):
            self.escape(module.children)
            self.states[module.identity] = _NOBODY_KNOWS
            return
        cls = torch_api.module_class(name)
        if cls is None or not name.startswith("torch.nn."):
            self.states[module.identity] = _NOBODY_KNOWS
            return
        device = arguments.keywords.get("device")
        if device is not None and any(device_kind(option) != "cpu" for option in options_of(device)):
            self.states[module.identity] = (Where(Side.MOVED, by=self.interpreter.place(node)),)
        named = dict(zip(cls.arguments, arguments.positional, strict=False)) | arguments.keywords
        handed = [named[keyword] for keyword in cls.tensor_arguments if keyword in named]
        tensors = [option for value in handed for option in options_of(value) if isinstance(option, Tensor)]
        placed = all(_is_elsewhere(tensor) or tensor.zero_dim is not False for tensor in tensors)
        if tensors and placed and not (module.state is not None and module.state.parameters):
            self.states[module.identity] = _NOBODY_KNOWS

    def _constructed(self, cls: ClassModel, arguments: Arguments, node: cst.Call, value: Value) -> None:
        """A class of this file has been called."""
        if not isinstance(value, ModuleInstance):
            if not cls.is_plain:
                self.escape(arguments.values())
            return
        if moves_itself(cls) or is_given_device(cls, arguments, node):
            self.escape([value])
            self.touched.discard(value.identity)

    def _copied(self, original: ModuleInstance, copy: ModuleInstance) -> None:
        """`copy` is a deep copy of `original`: where it is, and all that belongs to it."""
        self.states[copy.identity] = self.states.get(original.identity, _NOBODY_KNOWS)
        self.frozen.add(copy.identity)
        children: list[Value] = []
        for child in copy.children:
            if isinstance(child, ModuleInstance) and child is not original:
                fresh = replace(child, identity=object(), children=list(child.children))
                self._copied(child, fresh)
                children.append(fresh)
            else:
                children.append(child)
        copy.children[:] = children

    # Modules

    def built(self, module: ModuleInstance) -> None:
        """Note that a module is made here."""
        side = next((side for side in reversed(self._contexts) if side is not Side.HERE), Side.HERE)
        self.states[module.identity] = (
            Where(side, self.conditions, self.interpreter.place(module.place.node) if module.place else None),
        )

    def _move(self, module: ModuleInstance, name: str, arguments: Arguments, node: cst.Call) -> None:
        device = arguments.get(0, "device") if name in {"to", "to_empty"} else None
        home = (
            all(device_kind(option) == "cpu" for option in options_of(device)) if device is not None else name == "cpu"
        )
        where = Where(Side.UNKNOWN if home else Side.MOVED, by=self.interpreter.place(node))
        for member in _tree(module):
            self._now(member, where)
            if member.cls is not None:
                self.moved_classes.add(member.cls)

    def _now(self, module: ModuleInstance, where: Where) -> None:
        self.states[module.identity] = (where,)
        self.touched.add(module.identity)
        for found in self.found:
            if found.culprit.identity is module.identity and where.side is Side.MOVED and where.by is not None:
                found.later.append(where.by)

    def escape(self, values: Iterable[Value]) -> None:
        """Note that what nobody can see gets these values, and may move what is among them."""
        values = list(values)
        for value in values:
            for held in contents(value):
                if isinstance(held, Optimizer):
                    self._confirm(held, certain=False)
                root = held if isinstance(held, ModuleInstance) else root_of(held)
                if root is not None:
                    for member in _tree(root):
                        self._now(member, _NOBODY_KNOWS[0])

    def attach(
        self,
        root: ModuleInstance,
        value: Value,
        target: cst.CSTNode,
        statement: cst.CSTNode,
        expression: cst.BaseExpression | None,
    ) -> None:
        """Note that `value` becomes a part of the module `root`."""
        place = self.interpreter.place
        moved = self.states.get(root.identity, ())
        all_moved = bool(moved) and all(where.side is Side.MOVED for where in moved)
        by = moved[0].by if all_moved else None
        children = [option for option in options_of(value) if isinstance(option, ModuleInstance)]
        for child in children:
            if not any(known is child for known in root.children):
                root.children.append(child)
            kept = Attached(place(target), place(statement), expression, self.function, by)
            self.attached.setdefault(root.identity, []).append((child, kept))
        optimizer = self.optimized.get(root.identity)
        if optimizer is None:
            return
        fresh = {
            member.identity
            for child in children
            for member in _tree(child)
            if member.identity not in optimizer.identities and _has_parameters(member)
        }
        parameters = [option for option in options_of(value) if isinstance(option, Parameter) and not option.buffer]
        if fresh or parameters:
            late = Late(
                place(target),
                place(statement),
                self.function,
                optimizer.place,
                root.identity,
                frozenset(fresh),
            )
            self.waiting.append(late)

    # Optimizers

    def _freeze(self, module: ModuleInstance) -> None:
        self.frozen |= {member.identity for member in _tree(module)}

    def freeze(self, parameter: Tensor) -> None:
        """Note that a parameter, and so most likely all of its module's, will not be trained."""
        module = self._parameters.get(parameter.made.node) if parameter.made is not None else None
        if module is not None:
            self._freeze(module)

    def trained(self, late: Late) -> bool:
        """Whether what came late is meant to be trained, as far as is known."""
        return not late.identities or not late.identities <= self.frozen

    def _taken(self, arguments: Arguments) -> frozenset[object]:
        """The modules whose parameters are among these arguments, each with all that is known to belong to it."""
        found: set[object] = set()
        for argument in arguments.values():
            for held in contents(argument):
                if isinstance(held, Tensor) and held.made is not None and held.made.node in self._parameters:
                    found |= {member.identity for member in _tree(self._parameters[held.made.node])}
        return frozenset(found)

    def _optimizer_built(self, arguments: Arguments, node: cst.Call, taken: frozenset[object]) -> Value:
        optimizer = Optimizer(self.interpreter.place(node), taken)
        if taken:
            self.waiting = [late for late in self.waiting if not taken & {late.root, *late.identities}]
        else:
            self.waiting = []
        for identity in taken:
            self.optimized[identity] = optimizer
        self.touched |= {("optimized", identity) for identity in taken}
        return optimizer

    def _confirm(self, optimizer: Optimizer, certain: bool) -> None:
        self.used.append(optimizer.place)
        for late in self.waiting:
            if late.optimizer is optimizer.place:
                self.late.append(replace(late, certain=certain))
        self.waiting = [late for late in self.waiting if late.optimizer is not optimizer.place]

    def repeated(self, start: int) -> None:
        """Note that what has run since `used` had `start` members runs again: optimizers that were used in it will be
        used after all that it has added."""
        again = set(self.used[start:])
        self.late += [late for late in self.waiting if late.optimizer in again]
        self.waiting = [late for late in self.waiting if late.optimizer not in again]

    def returned(self, value: Value) -> None:
        """Note what the function that was run as a whole returns."""
        for held in contents(value):
            if isinstance(held, Optimizer):
                self._confirm(held, certain=False)

    def used_elsewhere(self, places: set[Place]) -> None:
        """Note which optimizers the other methods of a class use, before or after this one has run."""
        self.late += [late for late in self.waiting if late.optimizer in places]
        self.waiting = []

    def forget(self) -> None:
        """Say nothing of this run: its object may be a module, which moves all that it holds."""
        self.found, self.late, self.waiting = [], [], []

    # Constructors of modules

    def moved_itself(self, name: str, arguments: Arguments, node: cst.Call) -> None:
        """`self.to(device)` in the constructor of a module."""
        devices = options_of(arguments.get(0, "device") or UNKNOWN)
        if name == "cpu" or (name == "to" and all(device_kind(device) == "cpu" for device in devices)):
            return
        if self.interpreter.moves_module(name, arguments):
            self._moved_itself = self.interpreter.place(node)
            self._left = []

    def optimized_itself(self, node: cst.Call) -> None:
        """An optimizer is built in the constructor of a module."""
        self._optimized_itself = None
        self.waiting = []
        if any(
            isinstance(found, cst.Call) and dotted(found.func) in {"self.parameters", "self.named_parameters"}
            for found in walk(node)
        ):
            self._optimized_itself = self.interpreter.place(node)

    def kept(
        self,
        name: str,
        value: Value,
        target: cst.CSTNode,
        statement: cst.CSTNode,
        expression: cst.BaseExpression | None,
        buffer: bool = False,
    ) -> None:
        """Note what the constructor of a module keeps in an attribute, with `buffer` as a buffer."""
        place = self.interpreter.place
        for option in options_of(value):
            if self._moved_itself is not None and (
                (isinstance(option, ModuleInstance) and any(self._is_here(one) for one in self._members(option)))
                or (isinstance(option, Parameter) and _is_on_cpu(option.data))
                or (buffer and _is_on_cpu(option))
            ):
                module = option if isinstance(option, ModuleInstance) else None
                self._left.append(Left(name, place(target), place(statement), expression, module, self._moved_itself))
            if not isinstance(option, ModuleInstance | Parameter) or self._optimized_itself is None:
                continue
            members = _tree(option) if isinstance(option, ModuleInstance) else []
            if not option.buffer if isinstance(option, Parameter) else any(map(_has_parameters, members)):
                self.waiting.append(
                    Late(
                        target=place(target),
                        statement=place(statement),
                        function=self.function,
                        optimizer=self._optimized_itself,
                        root=None,
                        identities=frozenset(one.identity for one in members if _has_parameters(one)),
                        certain=True,
                    )
                )

    def left_behind(self) -> list[Left]:
        """What the constructor has kept after it moved the module, and not moved then."""
        return [
            left
            for left in self._left
            if left.module is None or any(self._is_here(member) for member in self._members(left.module))
        ]

    def _is_here(self, module: ModuleInstance) -> bool:
        states = self.states.get(module.identity, ())
        return bool(states) and all(where.side is Side.HERE for where in states)


def _receiver(function: Value, node: cst.Call) -> str | None:
    """The name of the module that a call of `function` uses, where it has one."""
    if isinstance(function, ModuleInstance):
        return dotted(node.func)
    return dotted(node.func.value) if isinstance(function, Method) and isinstance(node.func, cst.Attribute) else None


def root_of(value: Value) -> ModuleInstance | None:
    """The module that `value` is a part of."""
    while isinstance(value, Method):
        value = value.of
    return value if isinstance(value, ModuleInstance) else value.root if isinstance(value, Part) else None


def _union(parts: Sequence[tuple[tuple[Where, ...], Branch | None]]) -> tuple[Where, ...]:
    """Where a module is after branches at whose ends it is where `parts` say."""
    first = parts[0][0]
    if all(states == first for states, _ in parts):
        return first
    if any(branch is None for _, branch in parts):
        sides = {where.side for states, _ in parts for where in states}
        return (
            next((states for states, _ in parts if states[0].side is not Side.HERE), first) if len(sides) > 1 else first
        )
    states = tuple(
        replace(where, conditions=where.conditions | (branch.conditions if branch is not None else ALWAYS))
        for ends, branch in parts
        for where in ends
    )
    return states if len(states) <= _MOST_STATES else _NOBODY_KNOWS


def _tree(module: ModuleInstance) -> list[ModuleInstance]:
    """A module and all that is known to belong to it."""
    found: dict[object, ModuleInstance] = {}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if one.identity not in found:
            found[one.identity] = one
            waiting += modules_in(one.children)
    return list(found.values())


def _own_state(module: ModuleInstance) -> torch_api.State | None:
    return module.state if module.state is not None or module.cls is None else module.cls.state


def _has_parameters(module: ModuleInstance) -> bool:
    state = _own_state(module)
    return (state is not None and state.parameters) or any(parameters_in(module.children))


def _has_tensors(value: Value, interpreter: Interpreter | None = None) -> bool:
    """Whether a value is a module that has parameters or buffers of its own, more than numbers in tensors of no
    dimension."""
    if not isinstance(value, ModuleInstance):
        return False
    state = _own_state(value)
    if state is None or not (state.parameters or state.buffers):
        return state is None and value.cls is None and any(_has_tensors(child) for child in modules_in(value.children))
    if state.parameters or value.cls is None or interpreter is None:
        return True
    buffers = interpreter.model.facts(value.cls).registered.values()
    return not buffers or any(
        not isinstance(option, Tensor) or option.zero_dim is not True
        for buffer in buffers
        for option in options_of(buffer)
    )


def _argument(node: cst.Call, *keywords: str) -> cst.BaseExpression | None:
    """The argument of a call that is given by one of these keywords, or else the first one, for methods that take a
    device first."""
    for argument in node.args:
        if argument.keyword is not None and argument.keyword.value in keywords:
            return argument.value
    first = node.args[0] if node.args else None
    return first.value if first is not None and first.keyword is None and not first.star else None


def _is_elsewhere(tensor: Tensor) -> bool:
    return tensor.put is not None or tensor.home is not Home.CPU or tensor.alias is not None


def _is_on_cpu(data: Value) -> bool:
    tensors = [option for option in options_of(data) if isinstance(option, Tensor)]
    return bool(tensors) and not any(_is_elsewhere(tensor) for tensor in tensors)


def _has_layers(value: Value) -> bool:
    """Whether a value is a module with parameters or buffers, its own or its parts'."""
    state = value.whole_state() if isinstance(value, ModuleInstance) else None
    return state is not None and (state.parameters or state.buffers)


def with_unknown_device(values: list[Value]) -> list[Value]:
    """The values of which one is chosen: where all that is known are devices, what is unknown is one too."""
    known = [option for value in values for option in options_of(value) if option is not UNKNOWN]
    devices = bool(known) and all(map(is_device, known))
    return [Device() if devices and value is UNKNOWN else value for value in values]
