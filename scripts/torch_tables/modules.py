"""Classes of layers: what state they have, and which arguments of the constructor change it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from torch_tables.running import attempt, same
from torch_tables.signatures import OTHER, returned

Entry = dict[str, Any]
Arguments = dict[str, Any]

# Sizes to try: several heads, groups, channels and kernels fit into four; some layers want two or a pair.
_SIZES: tuple[Any, ...] = (4, 2, (4, 4), (2, 2), 1)
_SHAPES = ((4, 4), (2, 4, 4), (2, 4, 4, 4), (2, 4, 4, 4, 4))


class Marker(nn.TransformerEncoderLayer):
    """A layer with state and mode that fits where any module or a layer of a Transformer is asked for."""

    def __init__(self) -> None:
        super().__init__(4, 2, 8)


@dataclass(frozen=True)
class State:
    """What an instance has that `to`, `state_dict` and `eval` must reach."""

    parameters: bool
    buffers: bool
    mode: bool


class Modules:
    """Answers for one class at a time; `classes` are all that are asked about."""

    def __init__(self, classes: dict[str, type[nn.Module]]) -> None:
        self._classes = classes
        self.unclassified: list[str] = []

    def entry(self, name: str, canonical: Callable[[type], str | None]) -> Entry:
        """The table's line for the class `name`."""
        cls = self._classes[name]
        parameters = constructor(cls)
        entry: Entry = {
            "bases": [base for base in map(canonical, cls.__mro__[1:]) if base],
            "arguments": [
                "*" + p.name if p.kind is p.VAR_POSITIONAL else p.name
                for p in parameters
                if p.kind in {p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY, p.VAR_POSITIONAL}
            ],
            "keywords": [p.name for p in parameters if p.kind is p.KEYWORD_ONLY],
            "device": any(p.name == "device" for p in parameters),
        }
        built = next(((heir, given) for heir in self._heirs(cls) if (given := guess(heir)) is not None), None)
        if built is None:
            self.unclassified.append(f"{name}: not built")
        else:
            entry |= self._conduct(name, *built, {p.name for p in parameters})
        return {key: value for key, value in entry.items() if value or key in {"arguments", "bases"}}

    def _heirs(self, cls: type[nn.Module]) -> Iterator[type[nn.Module]]:
        """The class itself and, as it may be abstract, those derived from it."""
        yield cls
        yield from (other for other in self._classes.values() if issubclass(other, cls) and other is not cls)

    def _conduct(self, name: str, cls: type[nn.Module], given: Arguments, names: set[str]) -> Entry:
        state = self._state(name, cls, given)
        parameters = [p for p in constructor(cls) if p.name in names]
        return asdict(state) | {
            "switches": self._switches(cls, given, state),
            "tensor_arguments": [p.name for p in parameters if _keeps_tensor(cls, given, p)],
            "submodule_arguments": [p.name for p in parameters if _keeps_module(cls, given, p)],
        }

    def _state(self, name: str, cls: type[nn.Module], given: Arguments) -> State:
        module = build(cls, given)
        mode = False
        if any(_mentions_mode(type(part)) for part in module.modules()):
            differs = self._mode(cls, given)
            if differs is None:
                self.unclassified.append(f"{name}: not run, mode taken from its source")
            mode = differs is not False
        return State(_any(module.parameters()), _any(module.buffers()), mode)

    def _mode(self, cls: type[nn.Module], given: Arguments) -> bool | None:
        """Whether an instance has a mode, or one of a class next to `cls`, if it does not run here; None if unknown."""
        differs = _mode_when_run(cls, given)
        if differs is not None:
            return differs
        for other in self._classes.values():
            related = other.__bases__ == cls.__bases__ != (nn.Module,) or cls in other.__bases__
            if related and other is not cls:
                names = {p.name for p in constructor(other)}
                differs = _mode_when_run(other, {key: value for key, value in given.items() if key in names})
                if differs is not None:
                    return differs
        return None

    def _switches(self, cls: type[nn.Module], given: Arguments, state: State) -> Entry:
        switches: Entry = {}
        for parameter in constructor(cls):
            for word, value in _alternatives(parameter):
                for base in (given, given | _deeper(cls)):
                    changes = self._changes(cls, base | {parameter.name: value}, state)
                    if changes:
                        switches.setdefault(parameter.name, {})[word] = changes
                        break
        return switches

    def _changes(self, cls: type[nn.Module], given: Arguments, state: State) -> dict[str, bool]:
        done, module = attempt(build, cls, given)
        if not done:
            return {}
        mode: bool | None = False
        if any(_mentions_mode(type(part)) for part in module.modules()):
            mode = self._mode(cls, given)
        other = State(_any(module.parameters()), _any(module.buffers()), state.mode if mode is None else mode)
        return {fact: value for fact, value in asdict(other).items() if value != getattr(state, fact)}


def _any(things: Iterator[Any]) -> bool:
    return any(True for _ in things)


def constructor(cls: type[nn.Module]) -> list[inspect.Parameter]:
    """The parameters of the constructor, without `self` and `**kwargs`."""
    signature = inspect.signature(cls)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if [p.kind for p in parameters] == [inspect.Parameter.VAR_POSITIONAL] and len(signature.parameters) == 2:
        return _overloaded(cls)
    return parameters


def _overloaded(cls: type[nn.Module]) -> list[inspect.Parameter]:
    """The parameters in the first `@overload` of a constructor that takes anything; none if it has none."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and node.decorator_list:
            given = [ast.literal_eval(default) for default in node.args.defaults]
            defaults = [inspect.Parameter.empty] * (len(node.args.args) - len(given)) + given
            return [
                inspect.Parameter(
                    argument.arg,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=default,
                    annotation=ast.unparse(argument.annotation) if argument.annotation else "",
                )
                for argument, default in zip(node.args.args[1:], defaults[1:], strict=True)
            ]
    return []


def guess(cls: type[nn.Module]) -> Arguments | None:
    """Arguments that build an instance, small where the defaults are large; None if no guess does."""
    parameters = [p for p in constructor(cls) if p.kind is not p.VAR_POSITIONAL]
    required = [p for p in parameters if p.default is p.empty]
    optional = [p for p in parameters if p.default is None and "int" in _annotation(p)]
    small = {p.name: 4 for p in parameters if type(p.default) is int and p.default > 4}
    for text in ("LSTM", "mean"):
        for size in _SIZES:
            given = small | {p.name: _value(p, size, text) for p in required}
            for extra in ({}, *({p.name: size} for p in optional)):
                if attempt(build, cls, given | extra)[0]:
                    return given | extra
    return None


def build(cls: type[nn.Module], given: Arguments) -> nn.Module:
    """An instance, always with the same random weights."""
    torch.manual_seed(0)
    return cls(**given)


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _value(parameter: inspect.Parameter, size: Any, text: str) -> Any:
    annotation = _annotation(parameter)
    layer = getattr(nn, annotation.strip("'").rpartition(".")[2], None)
    if isinstance(layer, type) and layer is not nn.Module and issubclass(layer, nn.Module):
        return build(layer, guess(layer) or {})
    if re.search(r"Module\b|~T|^T$", annotation) or parameter.name == "module":
        return Marker()
    if re.search(r"Sequence\[int\]", annotation):
        return [1, 2]
    if "int" in annotation or parameter.annotation is parameter.empty:
        return size
    if "float" in annotation:
        return 0.5
    return text if "str" in annotation else True


def _mentions_mode(cls: type) -> bool:
    for base in cls.__mro__:
        if base is nn.Module or not issubclass(base, nn.Module):
            continue
        done, source = attempt(inspect.getsource, base)
        if done and "self.training" in source:
            return True
    return False


def _mode_when_run(cls: type[nn.Module], given: Arguments) -> bool | None:
    """Whether training and evaluation give different results; None if no guess at the input is taken."""
    answers = set()
    for inputs in _inputs():
        results = []
        for training in (True, False):
            done, module = attempt(build, cls, given)
            if not done:
                return None
            module.train(training)
            torch.manual_seed(0)
            fresh = [value.clone() for value in inputs]
            with torch.no_grad():
                done, result = attempt(module, *fresh)
            if not done:
                break
            results.append(result)
        if len(results) == 2:
            answers.add(not same(*results))
            if True in answers:
                return True
    return False if answers else None


def _inputs() -> Iterator[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    for shape in _SHAPES:
        values = torch.randn(shape, generator=generator)
        for count in (1, 2, 3):
            yield (values,) * count
        yield (torch.zeros(shape, dtype=torch.int64),)


def _alternatives(parameter: inspect.Parameter) -> Iterator[tuple[str, Any]]:
    """Other values to try for an argument, by the words with which the table names them."""
    default = parameter.default
    if isinstance(default, bool):
        yield str(not default).lower(), not default
    elif isinstance(default, int | float):
        if default:
            yield "zero", type(default)(0)
        elif isinstance(default, float):
            yield "nonzero", 0.5
        if "None" in _annotation(parameter):
            yield "none", None
    elif default is None and "bool" in _annotation(parameter):
        yield "true", True


def _deeper(cls: type[nn.Module]) -> Arguments:
    """Two layers, for what happens only between layers."""
    return {p.name: 2 for p in constructor(cls) if p.name == "num_layers" and p.default is not p.empty}


def _is_plain(parameter: inspect.Parameter) -> bool:
    """Whether an argument is meant to be a number or the like: any module assigned to an attribute is registered."""
    return isinstance(parameter.default, bool | int | float | str) or returned(_annotation(parameter)) == OTHER


def _keeps_tensor(cls: type[nn.Module], given: Arguments, parameter: inspect.Parameter) -> bool:
    """Whether a tensor given for `parameter` becomes a parameter or a buffer."""
    if parameter.kind is parameter.VAR_POSITIONAL or _is_plain(parameter):
        return False
    for shape in ((4,), (4, 4)):
        tensor = nn.Parameter(torch.rand(shape))
        for value in (tensor.detach(), [tensor], {"a": tensor}):
            done, module = attempt(build, cls, given | {parameter.name: value})
            if done and any(_shares(held, tensor) for held in (*module.parameters(), *module.buffers())):
                return True
    return False


def _shares(held: torch.Tensor, tensor: torch.Tensor) -> bool:
    return not torch.nn.parameter.is_lazy(held) and held.data_ptr() == tensor.data_ptr()


def _keeps_module(cls: type[nn.Module], given: Arguments, parameter: inspect.Parameter) -> bool:
    """Whether a module given for `parameter`, alone or in a list or a dict, becomes a submodule."""
    if _is_plain(parameter):
        return False
    given = {key: value for key, value in given.items() if not isinstance(value, Marker)}
    for value in (Marker(), [Marker()], {"a": Marker()}):
        if parameter.kind is parameter.VAR_POSITIONAL:
            done, module = attempt(cls, value)
        else:
            done, module = attempt(build, cls, given | {parameter.name: value})
        if done and any(isinstance(part, Marker) for child in module.children() for part in child.modules()):
            return True
    return False
