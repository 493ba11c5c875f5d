"""Functions: what they return, whether they take a device, whether they make tensors out of nothing, or by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from torch_tables.running import attempt, first_success, kind_of, same
from torch_tables.signatures import (
    MODULE,
    TENSOR,
    TENSORS,
    Overload,
    Stubs,
    Variant,
    declared,
    dispatch,
    schemas,
    variants,
)

Entry = dict[str, Any]

# Where the functions that do not declare their result only compute: elsewhere they save, load, seed, compile or set
# something, which is no question to answer by trying.
_COMPUTES = (
    "torch.functional",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.signal.",
    "torch.sparse",
    "torch.nested",
    "torch.autograd.variable",
)


class Functions:
    """Answers for one function at a time."""

    def __init__(self, stubs: Stubs, canonical: Callable[[object], str | None]) -> None:
        self._stubs = stubs
        self._canonical = canonical
        self._schemas = schemas()
        self.unclassified: list[str] = []

    def entry(self, name: str, function: Callable[..., Any]) -> Entry:
        """The table's line for `function`, which is public as `name`; facts that are false are left out."""
        overloads = self._overloads(name, function)
        returns, changes = self._returns(name, function)
        if returns is None:
            self.unclassified.append(name)
        names = {parameter.name for overload in overloads for parameter in overload.parameters}
        entry: Entry = {
            "returns": returns,
            "variants": [change.line() for change in changes],
            "device": "device" in names,
            "dtype": "dtype" in names,
            "requires_grad": "requires_grad" in names,
        }
        if returns in {TENSOR, TENSORS}:
            entry |= self._conduct(function, overloads, "device" in names)
            entry["random"] = entry["random"] or "generator" in names
        if returns == MODULE:
            entry |= self._module_made(function)
        return {key: value for key, value in entry.items() if value or key == "returns"}

    def constructor(self, cls: type) -> Entry:
        """The table's line for a class that makes plain tensors, such as torch.FloatTensor."""
        if attempt(cls, torch.ones(2))[0] and not attempt(cls, 2)[0]:
            return {"returns": TENSOR}  # it only wraps, as torch.autograd.Variable does
        dtype = getattr(cls, "dtype", None)
        if not isinstance(dtype, torch.dtype):
            dtype = cls(2).dtype
        return {"returns": TENSOR, "factory": True, "dtype_kind": kind_of_dtype(dtype)}

    def _overloads(self, name: str, function: Callable[..., Any]) -> list[Overload]:
        choice = dispatch(function)
        if choice:
            return self._overloads(name, choice.if_false)
        own = declared(function)
        if own:
            return own
        plain = getattr(function, "__name__", name.rpartition(".")[2])
        if plain in self._stubs.functions and name.rpartition(".")[0] in {"torch", "torch.nn.functional"}:
            return self._stubs.functions[plain]
        return self._schemas.get(plain, [])

    def _returns(self, name: str, function: Callable[..., Any]) -> tuple[str | None, list[Variant]]:
        choice = dispatch(function)
        if choice:
            plain, changes = self._returns(name, choice.if_false)
            chosen, _ = self._returns(name, choice.if_true)
            if chosen and chosen != plain:
                changes = [*changes, Variant(choice.argument, choice.position, chosen, value=True)]
            return plain, changes
        overloads = self._overloads(name, function)
        plain, changes = variants(overloads)
        return plain or self._returns_when_run(name, function, overloads), changes

    def _returns_when_run(self, name: str, function: Callable[..., Any], overloads: list[Overload]) -> str | None:
        of_class = name.rpartition(".")[0].rpartition(".")[2][:1].isupper()
        if not of_class and not (getattr(function, "__module__", None) or "").startswith(_COMPUTES):
            return None
        if not any(parameter.required for form in overloads for parameter in form.parameters):
            return None  # called with nothing, it is likely to do something rather than to give something
        success = first_success(function, [*_tensor_arguments(), *_module_arguments()])
        return kind_of(success[1]) if success else None

    def _module_made(self, function: Callable[..., Any]) -> Entry:
        success = first_success(function, [*_tensor_arguments(), *_module_arguments()])
        if success is None:
            return {}
        arguments, result = success
        if result is arguments[0]:
            return {"same_object": True}
        return {"module": self._canonical(type(result))}

    def _conduct(self, function: Callable[..., Any], overloads: list[Overload], takes_device: bool) -> Entry:
        entry: Entry = {"random": False}
        without_tensor = [
            form for form in overloads if not form.needs_tensor and form.returns in {TENSOR, TENSORS, None}
        ]
        if without_tensor:
            made = first_success(function, _factory_arguments())
            if made and kind_of(made[1]) in {TENSOR, TENSORS}:
                entry["factory"] = True
                entry["dtype_kind"] = _dtype_kind(function, made[1])
                entry["random"] = _is_random(function, made[0])
            else:  # it wants a file, a buffer or the like; a result that may require gradients is a new tensor
                entry["factory"] = any(
                    parameter.name == "requires_grad" for form in without_tensor for parameter in form.parameters
                )
        applied = first_success(function, _tensor_arguments())
        if applied:
            entry["random"] = entry["random"] or _is_random(function, applied[0])
            entry["same_object"] = applied[1] is applied[0][0]
        if takes_device:
            elsewhere = torch.rand(4, 4, device="meta")
            made = first_success(function, [(elsewhere, *rest) for rest in ((), (2,), (2, 3))])
            entry["like"] = made is not None and isinstance(made[1], torch.Tensor) and made[1].is_meta
        return entry


def _tensor_arguments() -> Iterator[tuple[Any, ...]]:
    torch.manual_seed(0)
    square = torch.rand(4, 4)
    row = torch.rand(4)
    yield from ((square.clone(),), (row.clone(),), (square.clone(), 2), (square.clone(), 0.5, True))
    yield from ((square.clone(), 0.5), (square, square), (row, row), (square, square, square))
    yield from ((square, 0, 1), ((4,), (4,)), ([row, row],), (torch.arange(4), square), (torch.rand(2, 4, 4),))
    yield from ((torch.rand(2, 4, 4), 2), (torch.rand(2, 2, 4, 4),), (torch.rand(2, 2, 4, 4), 2), (torch.arange(4),))


def _module_arguments() -> Iterator[tuple[Any, ...]]:
    yield from ((torch.nn.Linear(4, 4),), (torch.nn.Linear(4, 4), "weight"))
    yield (torch.nn.Linear(4, 4), "weight", torch.nn.Identity())
    for norm in (torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm):
        yield (norm(torch.nn.Linear(4, 4)),)
    yield (torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4)), "weight")
    yield (torch.nn.Linear(4, 4).parameters(),)


def _factory_arguments() -> Iterator[tuple[Any, ...]]:
    yield from (([1.0, 2.0],), (16,), ((4, 4),), (16, (16,)), ((4, 4), 7), (4, 4), (0, 4, 5), (0.0, 1.0, (16,)))
    yield from ((numpy.ones(3, dtype=numpy.float32),), ((4, 4), (4, 1)), ((4, 4), (0, 1)), (1.5,))
    yield from (([[0, 1]], [1.0, 2.0]), ([0, 1], [0], [1.0]), (16, 0.5), (16, [0.5, 0.5]))


def _data_arguments(values: list[Any]) -> Iterator[tuple[Any, ...]]:
    yield from ((values,), ((4,), values[0]), (numpy.array(values),), ([[0, 1]], values), ([0, 1], [0], values[:1]))


def _dtype_kind(function: Callable[..., Any], made: object) -> str | None:
    if not isinstance(made, torch.Tensor):
        return None
    followed = []
    for values in ([True, False], [1, 2], [1.0, 2.0]):
        success = first_success(function, _data_arguments(values))
        if success and isinstance(success[1], torch.Tensor):
            followed.append(kind_of_dtype(success[1].dtype))
    if followed == ["bool", "int", "float"]:
        return "data"
    if made.layout is torch.strided and made.is_floating_point() and bool(made.isnan().all()):
        return "uninitialised"
    return kind_of_dtype(made.dtype)


def kind_of_dtype(dtype: torch.dtype) -> str:
    """What a dtype holds: "bool", "complex", "float" or "int"."""
    if dtype is torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "int"


def _is_random(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        fresh = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
        done, result = attempt(function, *fresh)
        if not done:
            return False
        results.append(result)
    first, again, other = results
    # What differs under one seed too was never initialised.
    return attempt(same, first, again) == (True, True) and attempt(same, first, other) == (True, False)
