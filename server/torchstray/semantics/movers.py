"""What module classes and functions do to devices, as far as their text shows it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchstray.semantics.classes import ClassModel
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.names import children, dotted, walk
from torchstray.semantics.values import Arguments, Device, Method, Name, Part, Scalar, Value, options_of

_TYPES = frozenset({"dtype", "float", "float16", "float32", "float64", "half", "double", "bfloat16", "long", "int64"})
_KINDS = frozenset({"cpu", "cuda", "mps", "xpu", "npu", "hpu", "mtia"})
_DEVICE_WORDS = ("device", "gpu", "cuda", "rank")


def device_kind(value: Value) -> str | None:
    """The kind of device that a literal names: `cpu`, `cuda` or another; None where it is no literal."""
    if isinstance(value, Scalar):
        if value.literal is None:
            return "cpu"
        return "cuda" if isinstance(value.literal, int) and not isinstance(value.literal, bool) else None
    text = value.text if isinstance(value, Name) else value.literal if isinstance(value, Device) else None
    if text is None or not text[:1].isalpha():
        return None
    kind = text.partition(":")[0].partition("{")[0]
    return "cpu" if kind == "meta" else kind


def is_device(value: Value) -> bool:
    return isinstance(value, Device) or (isinstance(value, Name) and device_kind(value) in _KINDS)


def mentions(node: cst.CSTNode, attributes: set[str]) -> bool:
    return any(isinstance(found, cst.Attribute) and found.attr.value in attributes for found in walk(node))


def moves_itself(cls: ClassModel) -> bool:
    """Whether a module class moves itself, or parts of it, or what it is given, or takes moving into its own hands."""
    if any(name.startswith(("torch.nn.parallel.", "torch.nn.DataParallel")) for name in cls.outside):
        return True
    for own in cls.own_classes:
        if own.methods.keys() & {"to", "cuda", "_apply", "__call__"}:
            return True
        if not any(word in own.statement.text for word in (".to(", ".cuda(", ".to_empty(")):
            continue
        for name, method in own.methods.items():
            for found in walk(method.body):
                if not isinstance(found, cst.Call) or not isinstance(found.func, cst.Attribute):
                    continue
                if found.func.attr.value not in {"to", "cuda", "to_empty"}:
                    continue
                root = (dotted(found.func.value) or "").partition(".")[0]
                if root == "self" or name == "__init__":
                    return True
    return False


def takes_care(cls: ClassModel, called: Value) -> bool:
    """Whether the method that a call of a module runs, or of a part of it, moves its inputs itself, or cannot be
    seen."""
    found = cls.find_method(called.name if isinstance(called, Method) else "forward")
    if found is None:
        return not cls.fully_known and not isinstance(called, Method | Part)
    method = found[1]
    given = {parameter.name.value for parameter in (*method.params.params[1:], *method.params.kwonly_params)}
    for star in (method.params.star_arg, method.params.star_kwarg):
        if isinstance(star, cst.Param):
            given.add(star.name.value)
    nodes = list(walk(method.body))
    for _ in range(3):  # what is computed from an input is one as well
        for node in nodes:
            source, target = _assigned(node)
            if source is not None and target is not None and given & set(_computed_from(source)):
                given |= set(names_in(target))
    for node in nodes:
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        moves = node.func.attr.value in {"to", "cuda", "cpu", "numpy", "type_as"} and not _is_cast(node)
        if moves and given & set(_computed_from(node.func.value)):
            return True
    return False


def _assigned(node: cst.CSTNode) -> tuple[cst.BaseExpression | None, cst.CSTNode | None]:
    """What is assigned by a statement or a loop, and to what."""
    if isinstance(node, cst.Assign):
        return node.value, node.targets[0]
    if isinstance(node, cst.AnnAssign):
        return node.value, node.target
    if isinstance(node, cst.For | cst.CompFor):
        return node.iter, node.target
    return None, None


def _computed_from(node: cst.CSTNode) -> Iterator[str]:
    """The names that an expression computes with, those of which only the size, device or type is read left out."""
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, cst.Attribute):
        if node.attr.value not in {"shape", "size", "device", "dtype", "dim", "ndim"}:
            yield from _computed_from(node.value)
    elif isinstance(node, cst.Call) and dotted(node.func) != "len":
        yield from _computed_from(node.func)
        for argument in node.args:
            yield from _computed_from(argument.value)
    elif not isinstance(node, cst.Call):
        for child in children(node):
            yield from _computed_from(child)


def _is_cast(node: cst.Call) -> bool:
    """Whether `.to(…)` is given a type only."""
    given = [argument.value for argument in node.args]
    return bool(given) and all((dotted(value) or "").rpartition(".")[2] in _TYPES for value in given)


def is_given_device(cls: ClassModel, arguments: Arguments, node: cst.Call) -> bool:
    """Whether a module is built with a device among its arguments."""
    named = {argument.keyword.value for argument in node.args if argument.keyword is not None}
    found = cls.find_method("__init__")
    if found is None:
        return any(word in name for name in named for word in _DEVICE_WORDS)
    parameters = [parameter.name.value for parameter in found[1].params.params][1:]
    named |= set(parameters[: len(arguments.positional)])
    suspects = {name for name in named if any(word in name for word in _DEVICE_WORDS)}
    given = [*zip(parameters, arguments.positional, strict=False), *arguments.keywords.items()]
    suspects |= {name for name, value in given if any(map(is_device, options_of(value)))}
    return bool(suspects) and any(
        (argument.keyword is not None and argument.keyword.value == "device")
        or suspects & set(names_in(argument.value))
        for call in walk(found[1].body)
        if isinstance(call, cst.Call)
        for argument in call.args
    )


def feeds(cls: ClassModel, method: cst.FunctionDef, layers: set[str], depth: int = 0) -> bool:
    """Whether a method hands what it is given to the module itself, to one of its layers, or to a method that does."""
    given = {parameter.name.value for parameter in method.params.params[1:]}
    for node in walk(method.body):
        name = dotted(node.func) if isinstance(node, cst.Call) else None
        if not isinstance(node, cst.Call) or name is None or name.partition(".")[0] != "self":
            continue
        if not any(given & set(_computed_from(argument.value)) for argument in node.args):
            continue
        called = name.partition(".")[2]
        if not called or called in layers or called == "forward":
            return True
        found = cls.find_method(called)
        if found is not None and depth < 3 and feeds(cls, found[1], layers, depth + 1):
            return True
    return False
