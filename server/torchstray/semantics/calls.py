"""What calling something gives: torch's functions and layers, built-in functions, methods of tensors and containers."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from dataclasses import replace

import libcst as cst

from torchstray.semantics import ecosystem, torch_api
from torchstray.semantics.classes import ClassModel, outside_state
from torchstray.semantics.devices import is_tensor_method, joins, keeps_dimensions, may_be_tensor, may_stay
from torchstray.semantics.evaluate import DTYPE, INPUT, PLACED, Evaluator
from torchstray.semantics.facts import Fate, Handling, Phase
from torchstray.semantics.names import dotted
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import (
    ANY_SCALAR,
    MISSING,
    NONE,
    UNKNOWN,
    Arguments,
    Batch,
    ClassValue,
    Container,
    Device,
    Distribution,
    FunctionValue,
    Home,
    Input,
    Instance,
    Loader,
    Method,
    ModuleInstance,
    Moved,
    Name,
    Origin,
    Parameter,
    Partial,
    Qualified,
    RecordType,
    Scalar,
    SelfValue,
    Shape,
    Source,
    SuperValue,
    Tensor,
    Value,
    contents,
    distinct,
    modules_in,
    one_of,
    options_of,
    parameters_in,
)

# Whose results are small numbers, which a half-precision cast does not spoil: torch's signatures do not say it.
_SMALL_FACTORIES = frozenset({"zeros", "ones", "eye", "empty", "rand", "randn", "hann_window", "hamming_window"})
_SMALL_RESULTS = frozenset(
    {"sin", "cos", "tanh", "sigmoid", "softmax", "sign", "normalize", "zeros_like", "ones_like", "triu", "tril", "bool"}
)
_SMALL = 256
# Whose results lie on the CPU, whatever they are made of, although no `device` can be given.
_ALWAYS_ON_THE_CPU = frozenset(
    {
        *(f"torch.{kind}Tensor" for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char")),
        *("torch.ByteTensor", "torch.BoolTensor", "torch.Tensor", "torch.from_numpy", "torch.frombuffer"),
    }
)
# Which take tensors, memory or files for their data, and may follow them.
_FOLLOWING = frozenset({"normal", "from_dlpack", "from_file", "nested_tensor"})
# Which change the number of dimensions, or take numbers that say how: not in torch's signatures either.
_REDUCTIONS = frozenset(
    {
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "norm",
        "std",
        "var",
        "all",
        "any",
        "median",
        "amax",
        "amin",
        "argmax",
        "argmin",
    }
)
_SHAPERS = frozenset(
    {
        "unsqueeze",
        "view",
        "reshape",
        "expand",
        "repeat",
        "tile",
        "broadcast_to",
        "permute",
        "transpose",
        "flatten",
        "unflatten",
    }
)
_SELECTORS = frozenset(
    {
        "abs",
        "neg",
        "clone",
        "contiguous",
        "detach",
        "to",
        "type",
        "squeeze",
        "chunk",
        "split",
        "unbind",
        "narrow",
        "select",
    }
    | {
        "flip",
        "roll",
        "sort",
        "t",
        "diagonal",
        "masked_fill",
        "clamp",
        "requires_grad_",
        "zero_",
        "fill_",
        "index_select",
    }
)
_JOINERS = frozenset({"cat", "stack", "concat", "hstack", "vstack", "outer", "meshgrid", "diag"})
_CONVERSIONS = {
    "float": "float",
    "double": "float",
    "half": "float",
    "bfloat16": "float",
    "long": "int",
    "int": "int",
    "short": "int",
    "bool": "bool",
}
_FILLERS = frozenset({"append", "appendleft", "add", "insert", "setdefault", "__setitem__"})
_EXTENDERS = frozenset({"extend", "extendleft", "update"})


class Caller(Evaluator):
    """Evaluates calls of everything that is not written in this file."""

    @abc.abstractmethod
    def store(self, attribute: str, value: Value, node: cst.CSTNode) -> None:
        """`setattr(self, attribute, value)`, by the call `node`."""

    @abc.abstractmethod
    def register(self, name: str, kind: str, value: Value, node: cst.Call) -> None:
        """`self.register_buffer(name, value)` and its like; `kind` is `buffer`, `parameter` or `module`."""

    @abc.abstractmethod
    def module_init(self, arguments: Arguments, node: cst.Call) -> None:
        """The `__init__` of an imported base class runs on `self`."""

    @abc.abstractmethod
    def class_state(self, cls: ClassModel) -> State | None:
        """The state that an instance of a module class of this file has; None where nothing of it is known."""

    @abc.abstractmethod
    def built(self, value: ModuleInstance | Parameter) -> None:
        """Note that a module or a parameter is made here."""

    @abc.abstractmethod
    def follow(self, cls: ClassModel, arguments: Arguments, node: cst.Call) -> Value | None:
        """What the `forward` of a module class of this file gives, with what it does to tensors made on the CPU; None
        where that cannot be seen."""

    @abc.abstractmethod
    def optimizer(self, arguments: Arguments, node: cst.Call) -> None:
        """Note what an optimizer is given."""

    def call(self, function: Value, arguments: Arguments, node: cst.Call) -> Value:
        if isinstance(function, FunctionValue):
            return self.call_function(function, arguments, node)
        if isinstance(function, Qualified):
            return self._qualified(function.name, arguments, node)
        if isinstance(function, Method):
            return self._method(function, arguments, node)
        if isinstance(function, ClassValue):
            return self._construct(function.cls, arguments, node)
        if isinstance(function, ModuleInstance | Input):
            for argument in arguments.values():
                handling = Handling.FAILS if self.phase is Phase.FORWARD else Handling.HANDED_ON
                self.note_use(argument, handling, node)
            return self._module_call(function, arguments, node) if isinstance(function, ModuleInstance) else INPUT
        if isinstance(function, Partial):
            merged = Arguments(
                function.arguments.positional + arguments.positional,
                {**function.arguments.keywords, **arguments.keywords},
                function.arguments.complete and arguments.complete,
            )
            return self.call(function.function, merged, node)
        if isinstance(function, RecordType):
            items = [*arguments.positional, *arguments.keywords.values()]
            keys: list[Value] = [Name(field) for field in function.fields]
            return Container(Shape.TUPLE, items, keys, self.place(node), exact=arguments.complete)
        if isinstance(function, Instance):
            called = function.cls.find_method("__call__")
            if called is not None:
                owner, method = called
                bound = FunctionValue(method, owner.statement, owner, function)
                return self.call_function(bound, arguments, node)
        if isinstance(function, SelfValue):
            self._hand_on(arguments, node)
            return self._own_call(function, arguments, node)
        return self._unknown_call(arguments, node)

    def _module_call(self, module: ModuleInstance, arguments: Arguments, node: cst.Call) -> Value:
        """What calling a module gives, and what becomes of tensors made on the CPU that it gets."""
        if self.phase is not Phase.FORWARD:
            return INPUT
        state = module.whole_state()
        placed = state is not None and (state.parameters or state.buffers)
        placed = placed or any(self._holds_placed(argument) for argument in arguments.values())
        if module.cls is not None:
            if any(self.has_origins(argument) for argument in arguments.values()):
                followed = self.follow(module.cls, arguments, node)
                return PLACED if followed is None and placed else followed or INPUT
        elif placed and (name := f"torch.{module.name}") and torch_api.module_class(name) is not None:
            named = arguments.named()
            for key, argument in named.items():
                if not may_stay(name, key):
                    self.note_fate(argument, Fate.FAILS, node)
            for tensor in module.given:
                self.note_fate(tensor, Fate.FAILS, node)
        elif (
            state is not None
            and torch_api.module_class(f"torch.{module.name}") is not None
            and any(self.has_origins(argument) for argument in arguments.values())
        ):
            return self.combined(arguments.values(), node, tolerant=False)
        return PLACED if placed else INPUT

    def _own_call(self, module: SelfValue, arguments: Arguments, node: cst.Call) -> Value:
        if self.phase is not Phase.FORWARD or self.facts is None:
            return INPUT
        state = self.facts.instance.whole_state()
        if any(self.has_origins(argument) for argument in arguments.values()):
            self.follow(module.cls, arguments, node)
        placed = state is not None and (state.parameters or state.buffers)
        return PLACED if placed or any(self._holds_placed(argument) for argument in arguments.values()) else INPUT

    def _holds_placed(self, value: Value) -> bool:
        return any(self.is_placed(held) for held in contents(value))

    def _hand_on(self, arguments: Arguments, node: cst.Call) -> None:
        """Note that strays go to something that cannot be seen; where a device goes with them, to be moved there."""
        values = list(arguments.values())
        handling = Handling.MOVED if any(isinstance(value, Device) for value in values) else Handling.HANDED_ON
        for value in values:
            self.note_use(value, handling, node)

    def _unknown_call(self, arguments: Arguments, node: cst.Call) -> Value:
        self._hand_on(arguments, node)
        if self.phase is Phase.FORWARD:
            for value in arguments.values():  # `checkpoint(self.block, x)` calls what it is given
                if isinstance(value, FunctionValue):
                    self.call_function(value, Arguments(complete=False), node)
        else:
            # It may register what it gets: what cannot be known is not reported.
            for value in arguments.values():
                for held in contents(value):
                    if isinstance(held, ModuleInstance):
                        held.register()
                    elif isinstance(held, Parameter):
                        held.registered = True
            if self.facts is not None and any(isinstance(value, SelfValue) for value in arguments.values()):
                self.facts.initialised = True
        return UNKNOWN

    # Imported things

    def _qualified(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        package, _, last = name.rpartition(".")
        if package == "builtins":
            builtin = _BUILTINS.get(last)
            return self._unknown_call(arguments, node) if builtin is None else builtin(self, arguments, node)
        if last == "__init__" and not arguments.positional:
            arguments = Arguments((self.frame.instance or UNKNOWN,), arguments.keywords, arguments.complete)
        if package == "math":
            return ANY_SCALAR
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, arguments, node)
        if last == "__init__" and arguments.positional and isinstance(arguments.positional[0], SelfValue):
            self.module_init(Arguments(arguments.positional[1:], arguments.keywords, arguments.complete), node)
            return NONE
        module_class = torch_api.module_class(name)
        if module_class is not None:
            return self._torch_module(module_class, arguments, node)
        function = torch_api.function(name)
        if function is not None:
            return self._torch_function(function, arguments, node)
        if torch_api.kind(name) == "distribution":
            tensors = [self._as_tensor(argument, node) for argument in arguments.values()]
            return Distribution(name, tensors, self.place(node))
        if torch_api.kind(name) == "optimizer":
            self.optimizer(arguments, node)
            return UNKNOWN
        state = ecosystem.module_state(name)
        if state is not None:
            return self._made(ModuleInstance(last, state, self.place(node)), arguments)
        return self._unknown_call(arguments, node)

    def _as_tensor(self, value: Value, node: cst.Call) -> Value:
        return Tensor(zero_dim=True, dtype="float", made=self.place(node)) if isinstance(value, Scalar) else value

    def _torch_module(self, cls: torch_api.ModuleClass, arguments: Arguments, node: cst.Call) -> Value:
        given: dict[str, object] = {}
        named = dict(zip(cls.arguments, arguments.positional, strict=False)) | arguments.keywords
        for keyword, value in named.items():
            if isinstance(value, Scalar) and value.literal is not MISSING:
                given[keyword] = value.literal
        state = cls.state_for(given)
        handed = [named[keyword] for keyword in cls.tensor_arguments if keyword in named]
        if self.phase is not Phase.FORWARD and any(isinstance(value, Tensor) for value in handed):
            # In `forward`, the tensor itself is the mistake, not the layer that gets it.
            state = replace(state, buffers=True)
        module = ModuleInstance(cls.name.removeprefix("torch."), state, self.place(node))
        module.given += [value for value in handed if self.has_origins(value)]
        return self._made(module, arguments)

    def _starts_afresh(self, module: ModuleInstance, arguments: Arguments) -> bool:
        """Whether what a new module holds is more than it is given: parameters are made, buffers often passed on."""
        if self.phase is not Phase.FORWARD:
            return True
        values = [option for value in arguments.values() for option in options_of(value)]
        if all(isinstance(value, Scalar | Name) for value in values) and arguments.complete:
            return True
        state = module.whole_state(fresh=True)
        return state is not None and state.parameters

    def _made(self, module: ModuleInstance, arguments: Arguments, fresh: bool = True) -> ModuleInstance:
        for value in arguments.values():
            for held in contents(value):
                if isinstance(held, ModuleInstance | Parameter):
                    module.children.append(held)
        for inner in modules_in(module.children):
            inner.inner = True
        for parameter in parameters_in(module.children):
            parameter.registered = True
        if fresh:
            self.built(module)
        return module

    def _construct(self, cls: ClassModel, arguments: Arguments, node: cst.Call) -> Value:
        if cls.is_module and cls.home is not None:
            module = ModuleInstance(cls.name, None, self.place(node), cls, find=lambda: self.class_state(cls))
            return self._made(module, arguments, self._starts_afresh(module, arguments))
        if cls.is_module:
            module = ModuleInstance(cls.name, self.class_state(cls), self.place(node), cls)
            return self._made(module, arguments, self._starts_afresh(module, arguments))
        if not cls.is_plain or (cls.home is not None and not cls.home.concerns_torch):
            return self._unknown_call(arguments, node)
        instance = Instance(cls, place=self.place(node))
        found = cls.find_method("__init__")
        if found is None:
            instance.attributes.update(zip(cls.fields, arguments.positional, strict=False))
            instance.attributes.update(arguments.keywords)
        else:
            owner, method = found
            self.call_function(FunctionValue(method, owner.statement, owner, instance), arguments, node)
        return instance

    def _torch_function(self, function: torch_api.Function, arguments: Arguments, node: cst.Call) -> Value:
        returns = function.returned(_literals(arguments))
        if returns == "other":
            return ANY_SCALAR
        if function.factory:
            return self._factory(function, arguments, node)
        last = function.name.rpartition(".")[2]
        first = arguments.positional[0] if arguments.positional else None
        if function.same_object and isinstance(first, Parameter):
            return first
        if returns == "module" and first is not None:
            return first
        if returns not in {"tensor", "tensors"}:
            return self._unknown_call(arguments, node)
        named = arguments.named()
        groups = [
            [
                PLACED if key == 0 and isinstance(option, Input) and option.given else option
                for option in options_of(value)
            ]
            for key, value in named.items()
            if may_be_tensor(last, key) and not may_stay(function.name, key)
        ]
        result = self.combined_options(groups, node, tolerant=joins(last) and last not in _JOINERS)
        result = one_of(self._computed(function, option, arguments, node) for option in options_of(result))
        if returns == "tensors":
            return Container(Shape.TUPLE, [result], place=self.place(node))
        return result

    def _computed(self, function: torch_api.Function, result: Value, arguments: Arguments, node: cst.Call) -> Value:
        """The result of a function that computes, from what its tensors give together."""
        last = function.name.rpartition(".")[2]
        if isinstance(result, Tensor) and result.origins:
            result = self._with_dimensions(result, last)
            if function.device and "device" in arguments.keywords:
                result = self._placed_by(result, arguments.keywords["device"])
        if isinstance(result, Tensor):
            result = replace(result, bounded=_stays_small(result, last))
            result = _reshaped(result, last, len(arguments.positional) - 1 + len(arguments.keywords))
            if function.random:
                result = replace(result, source=max(result.source, Source.RANDOM))
            if last.endswith("_like") or last == "empty_like":
                result = replace(
                    result,
                    source=Source.RANDOM if function.random else Source.CONSTANT,
                    requires_grad=False,
                    leaf=True,
                    strays=frozenset(),
                    tracked=False,
                    parameter=None,
                )
            if "dtype" in arguments.keywords:
                result = replace(result, dtype=self._dtype(arguments.keywords["dtype"]))
        elif isinstance(result, Input) and function.device and "device" in arguments.keywords:
            result = result if self._home(arguments.keywords["device"]) is Home.PLACED else INPUT
        elif result is UNKNOWN and self.phase is Phase.FORWARD:
            result = INPUT
        elif result is UNKNOWN:
            result = Tensor(Source.DATA, leaf=False, made=self.place(node))
        return result

    def _dtype(self, value: Value) -> str | None:
        if isinstance(value, Qualified):
            return {"builtins.float": "float", "builtins.int": "int", "builtins.bool": "bool"}.get(
                value.name, torch_api.dtype_kind(value.name)
            )
        return None

    def _factory(self, function: torch_api.Function, arguments: Arguments, node: cst.Call) -> Tensor:
        last = function.name.rpartition(".")[2]
        device = arguments.keywords.get("device")
        dtype = arguments.keywords.get("dtype")
        gradient = arguments.keywords.get("requires_grad")
        kind: str | None = function.dtype_kind
        source = Source.RANDOM if function.random else Source.CONSTANT
        bounded = last in _SMALL_FACTORIES
        zero_dim: bool | None = False
        literals = [value.literal for value in arguments.positional if isinstance(value, Scalar)]
        if kind == "data":
            fill = arguments.get(1, "fill_value") if last == "full" else arguments.get(0, "data")
            source, kind, bounded = _from_data(fill)
            if last != "full":
                known = isinstance(fill, Scalar | Container) or last not in {"tensor", "as_tensor"}
                zero_dim = isinstance(fill, Scalar) if known else None
        elif last in {"arange", "linspace", "logspace", "range"}:
            bounded = bool(literals) and all(
                isinstance(number, int | float) and abs(number) <= _SMALL for number in literals
            )
            if any(isinstance(number, float) for number in literals):
                kind = "float"
        size = arguments.get(0, "size")
        if isinstance(size, Container) and size.exact and not size.items and function.dtype_kind != "data":
            zero_dim = True
        if last == "scalar_tensor":
            zero_dim = True
        if last == "full" and isinstance(size, Container) and size.exact and not size.items:
            zero_dim = True
        if dtype is not None and not (isinstance(dtype, Scalar) and dtype.literal is None):
            kind = self._dtype(dtype)
        return Tensor(
            source=source,
            home=Home.FIXED if ".cuda." in function.name else Home.CPU if device is None else self._home(device),
            dtype=kind if kind in {"int", "bool", "float", "complex"} else "float" if kind == "uninitialised" else None,
            bounded=bounded,
            zero_dim=zero_dim,
            requires_grad=isinstance(gradient, Scalar) and gradient.literal is True,
            made=self.place(node),
            origins=self._origins(function, device, arguments, node),
        )

    def _origins(
        self, function: torch_api.Function, device: Value | None, arguments: Arguments, node: cst.Call
    ) -> frozenset[Origin]:
        """What to remember of a factory's call: nothing where it may follow the device of what it is given."""
        if device is not None and device != NONE:
            return frozenset()
        if not function.device and function.name not in _ALWAYS_ON_THE_CPU:
            return frozenset()
        if function.name.rpartition(".")[2] in _FOLLOWING or "out" in arguments.keywords:
            return frozenset()
        if not arguments.complete and any(argument.star == "**" for argument in node.args):
            return frozenset()
        given = [option for value in arguments.values() for option in options_of(value)]
        if any(
            isinstance(option, Tensor | Parameter) or (isinstance(option, Input) and option.proven) for option in given
        ):
            return frozenset()
        if function.dtype_kind == "data" and function.name != "torch.full" and function.name not in _ALWAYS_ON_THE_CPU:
            data = arguments.get(0, "data")
            if data is None or not all(isinstance(option, Scalar | Container) for option in options_of(data)):
                return frozenset()
        return self.made_here(node, _written(node.func), function.device)

    def _with_dimensions(self, tensor: Tensor, name: str) -> Tensor:
        """The result of a function or method, from one with `tensor`'s dimensions: where it may have none, it may join
        other tensors on any device."""
        kept = tensor.zero_dim is not False or keeps_dimensions(name)
        return tensor if kept else replace(tensor, zero_dim=None)

    def _home(self, device: Value) -> Home:
        """Where a tensor lies that is made with, or moved to, this device, or to that of this tensor."""
        placed = device.placed if isinstance(device, Device) else self.is_placed(device)
        return Home.PLACED if placed and self.phase is Phase.FORWARD else _home(device)

    def _placed_by(self, tensor: Tensor, device: Value) -> Tensor:
        """`tensor` on the device that an argument names."""
        if device == NONE:
            return tensor
        home = self._home(device)
        return tensor if home is Home.CPU else replace(tensor, home=home, origins=frozenset())

    def parameter(self, arguments: Arguments, node: cst.Call, buffer: bool = False) -> Value:
        """`nn.Parameter(...)` or `nn.Buffer(...)`."""
        data = arguments.get(0, "data")
        for option in options_of(data) if data is not None else ():
            if isinstance(option, Parameter):
                option.registered = True
        made = Parameter(self.place(node), data if data is not None else Tensor(), buffer)
        if not buffer:
            self.built(made)
        return made

    # Methods

    def _method(self, method: Method, arguments: Arguments, node: cst.Call) -> Value:
        of = method.of
        if isinstance(of, Tensor | Parameter | Input | Batch):
            return self._tensor_method(of, method.name, arguments, node)
        if isinstance(of, Container):
            return self._container_method(of, method.name, arguments, node)
        if isinstance(of, SelfValue | SuperValue | ClassValue):
            return self._self_method(of, method.name, arguments, node)
        if isinstance(of, ModuleInstance):
            return self._module_method(of, method.name, arguments, node)
        if isinstance(of, Distribution):
            return self._distribution_method(of, method.name, node)
        if isinstance(of, Name) and method.name == "format":
            return Name(of.text)
        if isinstance(of, Name | Scalar):
            return ANY_SCALAR
        return self._unknown_call(arguments, node)

    def _distribution_method(self, of: Distribution, name: str, node: cst.Call) -> Value:
        drawn = self.distribution_use(of, name, node)
        if self.phase is Phase.FORWARD and not of.owners and name in {"sample", "rsample"}:
            made = self.combined(of.tensors, node, tolerant=True)
            if isinstance(made, Tensor) and made.origins:
                return made
        return drawn

    def distribution_use(self, of: Distribution, name: str, node: cst.Call) -> Value:
        """What a method of a distribution, or a function of that name, gives: it computes with the distribution's
        tensors."""
        samples = name in {"sample", "rsample", "sample_n"}
        if samples and of.owners and self.phase is Phase.FORWARD:
            # A sample is where the distribution is: what becomes of it there is another question.
            self.note_use(of, Handling.HARMLESS, node)
            return Tensor(
                Source.RANDOM,
                zero_dim=_sample_is_zero_dim(of, node),
                leaf=False,
                strays=frozenset(of.owners),
                made=self.place(node),
            )
        large = any(isinstance(tensor, Tensor) and tensor.zero_dim is False for tensor in of.tensors)
        fails = (samples or large) and self.phase is Phase.FORWARD
        self.note_use(of, Handling.FAILS if fails else Handling.HARMLESS, node)
        return INPUT

    def moves(self, name: str, arguments: Arguments) -> bool:
        """Whether a tensor method of this name, called with these arguments, goes to another device:
        `.to(torch.float32)` does not."""
        known = torch_api.method(name)
        if known is None or not known.moves or name == "type":
            return False
        if name != "to":
            return True
        first = arguments.get(0, "device")
        if first is None or (isinstance(first, Scalar) and first.literal is not MISSING):
            return "other" in arguments.keywords
        return self._dtype(first) is None

    def _tensor_method(self, of: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if isinstance(of, Batch):
            return self._batch_method(of, name, arguments, node)
        known = torch_api.method(name)
        if known is None:
            self._hand_on(arguments, node)
            return UNKNOWN if not isinstance(of, Input) else Input()
        if isinstance(of, Input) and of.given and is_tensor_method(name):
            of = PLACED
        returns = known.returned(_literals(arguments))
        if returns == "other":
            self.note_use(of, Handling.HARMLESS, node)
            return ANY_SCALAR
        if self.moves(name, arguments):
            return self._moved(of, name, arguments, node)
        itself = isinstance(of, Parameter) or (isinstance(of, Tensor) and of.alias == "parameter")
        kind = arguments.positional[0] if name == "type" and arguments.positional else None
        if kind is not None and kind != DTYPE and isinstance(of, Tensor) and of.origins and self._dtype(kind) is None:
            self._note_move(of, node)  # the type of another tensor, and so its device
            of = replace(of, origins=frozenset(), home=Home.GIVEN)
        if itself and known.keeps_parameter and name != "to":
            return of
        if known.like:
            if isinstance(of, Input):
                return of if "device" not in arguments.keywords else INPUT
            like = Tensor(made=self.place(node), home=Home.FOLLOWS)
            if isinstance(of, Tensor) and "device" not in arguments.keywords:
                like = replace(like, origins=of.origins)
            return like
        if name in {"copy_", "index_put_"}:
            if any(self._holds_placed(argument) for argument in arguments.values()):
                self.note_fate(of, Fate.COLLECTS, node)
            return of
        named = arguments.named()
        groups = [[of]] + [
            list(options_of(value))
            for key, value in named.items()
            if name not in _SHAPERS
            and may_be_tensor(name, key + 1 if isinstance(key, int) else key)
            and not may_stay(f"torch.Tensor.{name}", key)
        ]
        result = self.combined_options(groups, node, tolerant=joins(name))
        result = one_of(self._changed(of, known, option, arguments) for option in options_of(result))
        if returns == "tensors":
            return Container(Shape.TUPLE, [result], place=self.place(node))
        return result

    def _changed(self, of: Value, method: torch_api.Method, result: Value, arguments: Arguments) -> Value:
        """The result of a method of `of`, from what its tensors give together."""
        if not isinstance(result, Tensor):
            return result
        name = method.name
        if result.origins:
            result = self._with_dimensions(result, name)
        result = _reshaped(result, name, len(arguments.positional) + len(arguments.keywords))
        if method.inplace and isinstance(of, Tensor):
            result = replace(result, leaf=of.leaf)
        if name in _CONVERSIONS:
            result = replace(result, dtype=_CONVERSIONS[name])
        if name == "to" and arguments.positional:
            result = replace(result, dtype=self._dtype(arguments.positional[0]))
        if name == "requires_grad_":
            flag = arguments.get(0, "requires_grad")
            result = replace(result, requires_grad=not (isinstance(flag, Scalar) and flag.literal is False))
        if name in {"detach", "detach_"}:
            result = replace(result, requires_grad=False, tracked=False)
        result = replace(result, bounded=_stays_small(result, name))
        if method.random:
            result = replace(result, source=max(result.source, Source.RANDOM))
        return result

    def _batch_method(self, of: Batch, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if name in {"items", "values"}:
            element = Tensor(Source.DATA, leaf=False, made=self.place(node))
            pair = Container(Shape.TUPLE, [ANY_SCALAR, element], exact=True)
            return Container(Shape.LIST, [pair if name == "items" else element])
        return Moved() if self.moves(name, arguments) else UNKNOWN

    def _moved(self, of: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        self.note_use(of, Handling.MOVED, node)
        self._note_move(of, node)
        device = arguments.get(0, "device") if name == "to" else None
        if name == "cpu" or (device is not None and device != NONE and _home(device) is Home.CPU):
            if isinstance(of, Input) or (isinstance(of, Tensor) and of.alias is not None):
                return INPUT if self.phase is Phase.FORWARD or isinstance(of, Input) else self.derived(of, node)
        elif isinstance(of, Tensor):
            of = replace(of, origins=frozenset())
        if isinstance(of, Input):
            return of
        home = Home.FIXED if name == "cuda" else Home.CPU if name == "cpu" else Home.GIVEN
        if name in {"to", "type_as"}:
            like = arguments.get(0, "device" if name == "to" else "other") or arguments.get(None, "other")
            home = self._home(like or UNKNOWN)
        if isinstance(of, Tensor) and home is Home.CPU:
            home = of.home
        result = self.derived(of, node)
        return replace(result, home=home, strays=frozenset()) if isinstance(result, Tensor) else result

    def _note_move(self, of: Value, node: cst.CSTNode) -> None:
        """Note that a tensor made on the CPU is moved in one branch, which knows when that is needed."""
        if not isinstance(of, Tensor):
            return
        guards = self.guards
        for origin in of.origins:
            known = zip(guards, origin.guards, strict=False)
            if len(guards) > len(origin.guards) or any(one is not other for one, other in known):
                self.note_fate(replace(of, origins=frozenset({origin})), Fate.SPARED, node)

    def _container_method(self, of: Container, name: str, arguments: Arguments, node: cst.Call) -> Value:
        first = arguments.positional[0] if arguments.positional else None
        if name in _FILLERS and arguments.positional:
            value = arguments.positional[-1]
            of.items.append(value)
            if of.shape is Shape.DICT and first is not None:
                of.keys.append(first)
            of.exact = of.exact and self.frame.loops == 0 and name == "append" and not self.frame.guards
            of.grown_at.append(self.place(node))
            return value if name == "setdefault" else NONE
        if name in _EXTENDERS:
            self.extend(of, first if first is not None else UNKNOWN, node)
            of.items += arguments.keywords.values()
            of.keys += [Name(keyword) for keyword in arguments.keywords]
            return NONE
        if name == "items":
            return Container(
                Shape.LIST,
                [Container(Shape.TUPLE, [one_of(of.keys) if of.keys else ANY_SCALAR, of.element()], exact=True)],
            )
        if name == "keys":
            return Container(Shape.LIST, list(of.keys) or [ANY_SCALAR])
        if name == "values":
            return Container(Shape.LIST, list(of.items), owners=of.owners)
        if name in {"pop", "popleft", "popitem", "get"}:
            found = of.at(first) if first is not None and name != "popleft" else of.element()
            if len(arguments.positional) < 2 or of.exact:
                return found
            default = arguments.positional[1]
            return one_of([found, default]) if makes_layer(default) else found
        if name == "copy":
            return Container(of.shape, list(of.items), list(of.keys), self.place(node), of.exact)
        return ANY_SCALAR if name in {"index", "count"} else UNKNOWN

    def extend(self, of: Container, more: Value, node: cst.CSTNode) -> None:
        """`of += more`."""
        of.exact = False
        of.grown_at.append(self.place(node))
        for option in options_of(more):
            if isinstance(option, Container):
                of.items += [item for item in distinct(option.items) if not any(item is known for known in of.items)]
                of.keys += option.keys
            else:
                of.items.append(self.iterate(option, node))

    def _self_method(self, of: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if name == "__init__":
            given = arguments.positional[1:] if isinstance(of, ClassValue) else arguments.positional
            self.module_init(Arguments(given, arguments.keywords, arguments.complete), node)
            return NONE
        if name == "__setattr__":
            return self._set_attribute(of, arguments, node)
        kind = {
            "register_buffer": "buffer",
            "register_parameter": "parameter",
            "add_module": "module",
            "register_module": "module",
        }.get(name)
        if kind is not None:
            key, value = (
                arguments.get(0, "name"),
                arguments.get(1, {"buffer": "tensor", "parameter": "param"}.get(kind, "module")),
            )
            self.register(
                key.text if isinstance(key, Name) else "{}", kind, value if value is not None else UNKNOWN, node
            )
            return NONE
        known = torch_api.module_method(name)
        if known is not None:
            itself = of.of if isinstance(of, SuperValue) else of
            return itself if known.returns_self else UNKNOWN
        self._hand_on(arguments, node)
        return INPUT if self.phase is Phase.FORWARD else UNKNOWN

    def _set_attribute(self, of: Value, arguments: Arguments, node: cst.Call) -> Value:
        key, value = arguments.get(0, None), arguments.get(1, None)
        target = of.of if isinstance(of, SuperValue) else of
        if isinstance(target, SelfValue) and isinstance(key, Name) and value is not None:
            self.store(key.text, value, node)
        return NONE

    def add_children(self, of: ModuleInstance, values: Iterable[Value]) -> None:
        """Note that a container of layers or parameters gets `values`."""
        for value in values:
            of.children.append(value)
            for module in modules_in([value]):
                module.inner = not of.registered or self.phase is not Phase.FORWARD
                if of.registered:
                    module.register()
            for parameter in parameters_in([value]):
                parameter.registered = True

    def _module_method(self, of: ModuleInstance, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if name in {"append", "add_module", "register_module", "insert", "extend", "update", "register_parameter"}:
            self.add_children(of, arguments.values())
            return of
        known = torch_api.module_method(name)
        if known is not None and known.returns_self:
            return of
        if name in {"parameters", "named_parameters"}:
            item: Value = Tensor(
                Source.DATA, dtype="float", requires_grad=True, alias="parameter", made=self.place(node)
            )
            if name == "named_parameters":
                item = Container(Shape.TUPLE, [ANY_SCALAR, item], exact=True)
            return Container(Shape.LIST, [item])
        if name in {"values", "children", "modules", "keys", "items"}:
            if name == "values" and of.children:
                return Container(Shape.LIST, [one_of(of.children)])
            if name == "items" and of.children:
                pair = Container(Shape.TUPLE, [ANY_SCALAR, one_of(of.children)], exact=True)
                return Container(Shape.LIST, [pair])
            return UNKNOWN
        if known is None:
            self._hand_on(arguments, node)
            return Input() if self.phase is Phase.FORWARD else UNKNOWN
        return UNKNOWN

    # Built-in functions

    def _super(self, arguments: Arguments, node: cst.Call) -> Value:
        frame = self.frame
        owner, instance = frame.owner, frame.instance
        if len(arguments.positional) == 1:
            return UNKNOWN  # not bound to `self`: its `__init__` does nothing to the module
        if len(arguments.positional) == 2:
            instance = arguments.positional[1]
            first = arguments.positional[0]
            if isinstance(first, ClassValue):
                owner = first.cls
            elif isinstance(first, Qualified) and isinstance(instance, SelfValue):
                if first.name == "torch.nn.Module":
                    return UNKNOWN  # what follows nn.Module is object
                owner = list(instance.cls.own_classes)[-1]
        if owner is None or instance is None:
            return UNKNOWN
        return SuperValue(instance, owner)

    def _list_of(self, shape: Shape) -> Callable[[Arguments, cst.Call], Value]:
        def build(arguments: Arguments, node: cst.Call) -> Value:
            result = Container(shape, place=self.place(node), exact=not arguments.positional and not arguments.keywords)
            for option in options_of(arguments.positional[0]) if arguments.positional else ():
                if isinstance(option, Container):
                    result.items += option.items
                    result.keys += option.keys
                    result.exact = option.exact and shape is not Shape.DICT
                elif isinstance(option, ModuleInstance):
                    result.items += option.children or [UNKNOWN]
                else:
                    result.items.append(self.iterate(option, node))
            result.items += arguments.keywords.values() if shape is Shape.DICT else ()
            result.keys += [Name(keyword) for keyword in arguments.keywords] if shape is Shape.DICT else []
            return result

        return build

    def _getattr(self, arguments: Arguments, node: cst.Call) -> Value:
        of, name = arguments.get(0, None), arguments.get(1, None)
        if of is None or not isinstance(name, Name):
            return UNKNOWN
        if isinstance(of, Qualified) and "{}" in name.text:
            return UNKNOWN
        found = one_of(self.attribute(option, name.text, node) for option in options_of(of))
        return UNKNOWN if isinstance(found, Method) and isinstance(of, SelfValue) else found

    def _setattr(self, arguments: Arguments, node: cst.Call) -> Value:
        of, name, value = (arguments.get(position, None) for position in range(3))
        if isinstance(of, SelfValue) and value is not None:
            self.store(name.text if isinstance(name, Name) else "{}", value, node)
        elif isinstance(of, Instance | ModuleInstance) and isinstance(name, Name) and value is not None:
            of.attributes[name.text] = value
        elif value is not None:
            for module in modules_in([value]):
                module.register()
        return NONE


def _sample_is_zero_dim(of: Distribution, node: cst.Call) -> bool | None:
    """Whether a sample has no dimensions; None where that depends on the shape that is asked for."""
    if any(isinstance(tensor, Tensor) and tensor.zero_dim is False for tensor in of.tensors):
        return False
    shape = node.args[0].value if node.args else cst.Tuple([])
    if not isinstance(shape, cst.Tuple | cst.List):
        return None
    if shape.elements:
        return False
    return True if all(isinstance(tensor, Tensor) and tensor.zero_dim for tensor in of.tensors) else None


def _written(node: cst.BaseExpression) -> str:
    """The name of a function as the user writes it."""
    return dotted(node) or "this call"


def _literals(arguments: Arguments) -> dict[int | str, object]:
    """The arguments that are written as literals, by position and by keyword; `...` for the others."""
    given: dict[int | str, object] = {}
    for key, value in arguments.named().items():
        given[key] = value.literal if isinstance(value, Scalar) and value.literal is not MISSING else ...
    return given


def makes_layer(value: Value) -> bool:
    """Whether calling `value` makes a layer: a layer class, or a `partial` of one."""
    if isinstance(value, Partial):
        return makes_layer(value.function)
    if isinstance(value, ClassValue):
        return value.cls.is_module
    return isinstance(value, Qualified) and outside_state(value.name) is not None


def _stays_small(tensor: Tensor, name: str) -> bool:
    """Whether a function or method of this name gives small numbers."""
    moves = name in _SHAPERS | _JOINERS | _SELECTORS or name in _CONVERSIONS
    return name in _SMALL_RESULTS or (tensor.bounded and moves)


def _reshaped(tensor: Tensor, name: str, arguments: int) -> Tensor:
    """The result of a function or method with what is known of its dimensions; `arguments` counts those besides the
    tensor."""
    if name in _REDUCTIONS:
        return replace(tensor, zero_dim=True if not arguments or tensor.zero_dim else None)
    if name in _SHAPERS or name in _JOINERS:
        return replace(tensor, zero_dim=False)
    return tensor


def _from_data(value: Value | None) -> tuple[Source, str | None, bool]:
    """Source, kind of dtype and boundedness of a tensor made of `value`."""
    if value is None:
        return Source.DATA, None, False
    if isinstance(value, Scalar):
        number = value.literal
        if isinstance(number, bool):
            return Source.CONSTANT, "bool", True
        if isinstance(number, int | float):
            return Source.CONSTANT, "int" if isinstance(number, int) else "float", abs(number) <= _SMALL
        return Source.CONSTANT, None, False
    if isinstance(value, Tensor):
        return value.source, value.dtype, value.bounded
    if isinstance(value, Container) and value.items:
        parts = [_from_data(item) for item in contents(value) if not isinstance(item, Container)] or [_from_data(None)]
        kinds = {kind for _, kind, _ in parts}
        kind = "float" if kinds == {"int", "float"} else kinds.pop() if len(kinds) == 1 else None
        return max(source for source, _, _ in parts), kind, all(bounded for _, _, bounded in parts)
    return Source.DATA, None, False


def _home(device: Value) -> Home:
    """Where a tensor made with `device=` this value lies."""
    if isinstance(device, Scalar) and device.literal is None:
        return Home.CPU
    literal = device.text if isinstance(device, Name) else device.literal if isinstance(device, Device) else None
    if literal is None:
        return Home.GIVEN
    return Home.CPU if literal.startswith("cpu") else Home.FIXED if literal.startswith("cuda") else Home.GIVEN


Call = Callable[[Caller, Arguments, cst.Call], Value]


def _scalar(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    for argument in arguments.values():
        caller.note_use(argument, Handling.HARMLESS, node)
    return ANY_SCALAR


def _same(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return arguments.positional[0] if arguments.positional else UNKNOWN


def _unknown(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return UNKNOWN


def _container(shape: Shape) -> Call:
    return lambda caller, arguments, node: caller._list_of(shape)(arguments, node)


def _enumerate(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    item = caller.iterate(arguments.positional[0], node) if arguments.positional else UNKNOWN
    return Container(Shape.LIST, [Container(Shape.TUPLE, [ANY_SCALAR, item], exact=True)])


def _zip(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    items = [caller.iterate(argument, node) for argument in arguments.positional]
    return Container(Shape.LIST, [Container(Shape.TUPLE, items, exact=arguments.complete)])


def _next(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return caller.iterate(arguments.positional[0], node) if arguments.positional else UNKNOWN


def _map(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    if not arguments.positional:
        return UNKNOWN
    items = tuple(caller.iterate(argument, node) for argument in arguments.positional[1:])
    results = [caller.call(function, Arguments(items), node) for function in options_of(arguments.positional[0])]
    return Container(Shape.LIST, [one_of(results)], place=caller.place(node))


def _sum(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    item = caller.iterate(arguments.positional[0], node) if arguments.positional else UNKNOWN
    if len(arguments.positional) > 1 and isinstance(arguments.positional[1], Container):
        return Container(Shape.LIST, [caller.iterate(item, node)], place=caller.place(node))
    return one_of(
        caller.derived(option, node) if not isinstance(option, Scalar) else option for option in options_of(item)
    )


def _deque(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return caller._list_of(Shape.DEQUE)(Arguments(arguments.positional[:1]), node)


def _default_dict(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    result = Container(Shape.DICT, place=caller.place(node))
    if arguments.positional:
        factory = arguments.positional[0]
        if isinstance(factory, FunctionValue | Qualified):
            made = caller.call(factory, Arguments(), node)
            if not isinstance(made, Scalar):
                result.items.append(made)
                result.keys.append(UNKNOWN)
    return result


def _partial(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    if not arguments.positional:
        return UNKNOWN
    rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.complete)
    return Partial(arguments.positional[0], rest)


def _copy(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    copied: list[Value] = []
    for option in options_of(arguments.positional[0]) if arguments.positional else ():
        if isinstance(option, ModuleInstance):
            children = list(option.children)
            place = caller.place(node)
            copied.append(ModuleInstance(option.name, option.state, place, option.cls, children, find=option.find))
        elif isinstance(option, Parameter):
            copied.append(Parameter(caller.place(node), option.data, option.buffer))
        elif isinstance(option, Container):
            copied.append(
                Container(option.shape, list(option.items), list(option.keys), caller.place(node), option.exact)
            )
        else:
            copied.append(option)
    return one_of(copied)


def _device(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    first = arguments.positional[0] if arguments.positional else None
    return Device(first.text) if isinstance(first, Name) else Device()


def _loader(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return UNKNOWN if "collate_fn" in arguments.keywords or not arguments.complete else Loader()


def _named_tuple(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    names = arguments.get(1, "field_names")
    if isinstance(names, Name):
        return RecordType(tuple(names.text.replace(",", " ").split()))
    if isinstance(names, Container):
        return RecordType(tuple(name.text for name in names.items if isinstance(name, Name)))
    return UNKNOWN


def _namespace(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    keys: list[Value] = [Name(keyword) for keyword in arguments.keywords]
    return Container(Shape.OBJECT, list(arguments.keywords.values()), keys, caller.place(node), exact=True)


def _chain(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return Container(Shape.LIST, [caller.iterate(argument, node) for argument in arguments.positional])


def _chain_all(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return Container(
        Shape.LIST, [caller.iterate(caller.iterate(argument, node), node) for argument in arguments.positional]
    )


def _repeat(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    return Container(Shape.LIST, list(arguments.positional[:1]))


def _variable(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    data = arguments.get(0, "data")
    flag = arguments.get(1, "requires_grad")
    if isinstance(data, Tensor) and isinstance(flag, Scalar):
        return replace(data, requires_grad=flag.literal is True)
    return data if data is not None else UNKNOWN


def _divergence(caller: Caller, arguments: Arguments, node: cst.Call) -> Value:
    for argument in arguments.values():
        for option in options_of(argument):
            if isinstance(option, Distribution):
                caller.distribution_use(option, "kl_divergence", node)
    return INPUT


_BUILTINS: dict[str, Call] = {
    **dict.fromkeys(("len", "int", "float", "str", "bool", "isinstance", "hasattr", "issubclass", "callable"), _scalar),
    **dict.fromkeys(("id", "hash", "repr", "round", "abs", "pow", "divmod", "ord", "chr", "any", "all"), _scalar),
    **dict.fromkeys(("print", "min", "max", "type", "vars", "dir", "delattr", "input", "object"), _unknown),
    **dict.fromkeys(("reversed", "iter"), _same),
    "filter": lambda caller, arguments, node: arguments.get(1, "iterable") or UNKNOWN,
    "range": lambda caller, arguments, node: Container(Shape.LIST, [ANY_SCALAR]),
    "list": _container(Shape.LIST),
    "sorted": _container(Shape.LIST),
    "tuple": _container(Shape.TUPLE),
    "set": _container(Shape.SET),
    "frozenset": _container(Shape.SET),
    "dict": _container(Shape.DICT),
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "map": _map,
    "sum": _sum,
    "super": Caller._super,
    "getattr": Caller._getattr,
    "setattr": Caller._setattr,
}
_SPECIAL: dict[str, Call] = {
    "torch.nn.Parameter": Caller.parameter,
    "torch.nn.Buffer": lambda caller, arguments, node: caller.parameter(arguments, node, buffer=True),
    "torch.nn.UninitializedParameter": Caller.parameter,
    "torch.autograd.Variable": _variable,
    "torch.device": _device,
    "torch.distributions.kl_divergence": _divergence,
    "torch.distributions.kl.kl_divergence": _divergence,
    "torch.Size": _scalar,
    "torch.compile": _same,
    "torch.jit.script": _same,
    "torch.utils.data.DataLoader": _loader,
    "collections.deque": _deque,
    "collections.namedtuple": _named_tuple,
    "types.SimpleNamespace": _namespace,
    "collections.defaultdict": _default_dict,
    "collections.OrderedDict": _container(Shape.DICT),
    "functools.partial": _partial,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_all,
    "itertools.cycle": _same,
    "itertools.islice": _same,
    "itertools.repeat": _repeat,
    "itertools.zip_longest": _zip,
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
}
