"""The call forms that torch declares: in its type stubs, its operator schemas and its Python signatures."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

TENSOR = "tensor"
TENSORS = "tensors"
MODULE = "module"
OTHER = "other"

# Last components of the annotations that never hold a tensor. `Any` and type variables are deliberately absent.
_PLAIN = {
    *("int", "float", "bool", "complex", "str", "bytes", "None", "Number", "Scalar", "NoReturn", "Never"),
    *("_int", "_float", "_bool", "_complex", "_size", "_dtype", "_device", "_layout", "_qscheme", "_symint"),
    *("SymInt", "SymFloat", "SymBool", "Size", "dtype", "device", "layout", "memory_format", "qscheme"),
    *("ndarray", "Generator", "DeviceType", "Node", "_Node", "Literal"),
}
_SEQUENCES = {"list", "tuple", "Sequence", "List", "Tuple", "Iterable", "Iterator", "Generator"}
# A named tuple of tensors, as are the classes of torch.return_types.
_PACKED = "PackedSequence"
_TENSOR_NAMES = {"Tensor", "TensorBase", "Parameter", "Self"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a call form; `position` is 0-based, None for a keyword-only one."""

    name: str
    annotation: str
    required: bool
    position: int | None
    variadic: bool = False

    @property
    def may_be_tensor(self) -> bool:
        return re.search(r"Tensor\b", self.annotation) is not None

    @property
    def needs_tensor(self) -> bool:
        """Whether no plain data will do: a number in place of a tensor is a shorthand, a list is data."""
        return self.required and self.may_be_tensor and "list" not in self.annotation


@dataclass(frozen=True)
class Overload:
    """One way to call a function and the kind of its result, None where the annotation does not tell."""

    parameters: tuple[Parameter, ...]
    returns: str | None

    @property
    def needs_tensor(self) -> bool:
        return any(parameter.needs_tensor for parameter in self.parameters)

    @property
    def required(self) -> set[str]:
        return {parameter.name for parameter in self.parameters if parameter.required}


@dataclass(frozen=True)
class Variant:
    """An argument whose presence, or whose value `value`, makes a call return something else than the plain call.

    With `integers`, a positional argument counts only if it is an integer: other call forms take a tensor there.
    """

    argument: str
    position: int | None
    returns: str
    value: bool | None = None
    integers: bool = False

    def line(self) -> dict[str, Any]:
        """As the tables have it."""
        return {key: value for key, value in asdict(self).items() if value is not None and value is not False}


def returned(annotation: str) -> str | None:
    """Classify a return annotation, given as source text."""
    try:
        return _classify(ast.parse(annotation, mode="eval").body)
    except SyntaxError:
        return None


def _classify(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return returned(text)
        case ast.Constant():
            return OTHER
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _union([_classify(left), _classify(right)])
        case ast.Subscript(value=value, slice=content):
            name = _last(value)
            members = content.elts if isinstance(content, ast.Tuple) else [content]
            kinds = [_classify(member) for member in members if not _is_ellipsis(member)]
            if name in {"Union", "Optional"}:
                return _union(kinds)
            if name in _SEQUENCES:
                return _sequence(kinds)
            return OTHER if name in {"Literal", "TypeIs", "TypeGuard"} else None
        case ast.Name() | ast.Attribute():
            name = _last(node)
            if name in _TENSOR_NAMES:
                return TENSOR
            if name == "Module":
                return MODULE
            if name == _PACKED or (isinstance(node, ast.Attribute) and _last(node.value) == "return_types"):
                return TENSORS
            return OTHER if name in _PLAIN else None
    return None


def _last(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _union(kinds: list[str | None]) -> str | None:
    for kind in (None, MODULE, TENSORS, TENSOR):
        if kind in kinds:
            return kind
    return OTHER


def _sequence(kinds: Sequence[str | None]) -> str | None:
    if TENSOR in kinds or TENSORS in kinds:
        return TENSORS
    return None if None in kinds else OTHER


class Stubs:
    """The call forms in the type stubs that torch ships for what is written in C++."""

    def __init__(self) -> None:
        folder = Path(torch.__file__).parent / "_C"
        whole = ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8")).body
        (tensor,) = (node for node in whole if isinstance(node, ast.ClassDef) and node.name == "TensorBase")
        self.methods = _definitions(tensor.body, skip=1)
        self.attributes = {
            node.target.id: returned(ast.unparse(node.annotation))
            for node in tensor.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        self.functions = _definitions(whole) | {
            name: overloads
            for file in ("_nn.pyi", "_VariableFunctions.pyi")
            for name, overloads in _definitions(ast.parse((folder / file).read_text(encoding="utf-8")).body).items()
        }


def _definitions(body: list[ast.stmt], skip: int = 0) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            result = returned(ast.unparse(node.returns)) if node.returns else None
            found.setdefault(node.name, []).append(Overload(tuple(_parameters(node.args, skip)), result))
    return found


def _parameters(arguments: ast.arguments, skip: int) -> Iterator[Parameter]:
    positional = arguments.posonlyargs + arguments.args
    first_default = len(positional) - len(arguments.defaults)
    for index, argument in enumerate(positional):
        if index >= skip:
            yield Parameter(argument.arg, _text(argument.annotation), index < first_default, index - skip)
    if arguments.vararg:
        yield Parameter(
            arguments.vararg.arg, _text(arguments.vararg.annotation), True, len(positional) - skip, variadic=True
        )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(argument.arg, _text(argument.annotation), default is None, None)


def _text(annotation: ast.expr | None) -> str:
    return ast.unparse(annotation) if annotation else ""


def schemas() -> dict[str, list[Overload]]:
    """The call forms of the operators, by their name without `aten::`; those that write to `out=` are left out."""
    found: dict[str, list[Overload]] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten" or any(argument.is_out for argument in schema.arguments):
            continue
        parameters = []
        for position, argument in enumerate(schema.arguments):
            place = None if argument.kwarg_only else position
            parameters.append(Parameter(argument.name, str(argument.type), not argument.has_default_value(), place))
        kinds = [_schema_kind(str(value.type)) for value in schema.returns]
        result = kinds[0] if len(kinds) == 1 else _sequence(kinds)
        found.setdefault(name, []).append(Overload(tuple(parameters), result))
    return found


def _schema_kind(text: str) -> str:
    if "Tensor" not in text:
        return OTHER
    return TENSOR if text in {"Tensor", "Optional[Tensor]"} else TENSORS


def declared(function: Callable[..., Any] | None) -> list[Overload]:
    """The call form in a Python signature; none for what has no signature."""
    if function is None:
        return []
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    parameters = []
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        variadic = parameter.kind is parameter.VAR_POSITIONAL
        parameters.append(
            Parameter(
                parameter.name,
                _source(parameter.annotation),
                parameter.default is parameter.empty,
                None if parameter.kind is parameter.KEYWORD_ONLY else position,
                variadic,
            )
        )
    return [Overload(tuple(parameters), returned(_source(signature.return_annotation)))]


def _source(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


@dataclass(frozen=True)
class Dispatch:
    """A function of torch that calls one of two others, by a boolean argument."""

    argument: str
    position: int
    if_true: Callable[..., Any]
    if_false: Callable[..., Any]


def dispatch(function: Callable[..., Any]) -> Dispatch | None:
    """What `function` dispatches to, if torch made it with `torch._jit_internal.boolean_dispatch`."""
    if getattr(function, "__qualname__", "") != "boolean_dispatch.<locals>.fn":
        return None
    held = inspect.getclosurevars(function).nonlocals
    return Dispatch(held["arg_name"], held["arg_index"], held["if_true"], held["if_false"])


def variants(overloads: list[Overload]) -> tuple[str | None, list[Variant]]:
    """What the plainest of `overloads` returns, and the arguments with which a call returns something else."""
    known = [overload for overload in overloads if overload.returns]
    if not known:
        return None, []
    plain = min(known, key=lambda overload: len(overload.required))
    alike = [overload for overload in known if overload.returns == plain.returns]
    found: dict[str, Variant] = {}
    for overload in known:
        if overload.returns == plain.returns or overload.returns is None:
            continue
        for parameter in overload.parameters:
            if parameter.required and parameter.name not in plain.required and not parameter.may_be_tensor:
                rival = any(other.position == parameter.position for form in alike for other in form.parameters)
                variant = Variant(
                    parameter.name,
                    parameter.position,
                    overload.returns,
                    value=True if parameter.annotation == "Literal[True]" else None,
                    integers=rival and parameter.position is not None and "int" in parameter.annotation,
                )
                found.setdefault(parameter.name, variant)
                break
    return plain.returns, list(found.values())
