"""What decides whether tensors on two devices may meet in a call: which arguments are tensors, and whether a result has
dimensions (one without may join any device)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_tables.running import attempt

_NAMESPACES = (torch, torch.nn.functional, torch.special, torch.fft, torch.linalg)


def tensor_arguments(methods: Iterable[str], functions: Iterable[str]) -> dict[str, list[int | str]]:
    """The arguments that are tensors, or lists of them, in some form of each function or method: by position (`self` of
    a method counted) and keyword. Names of which torch says nothing are left out."""
    names = {*methods, *(name.rpartition(".")[2] for name in functions)}
    found = {name: _tensors_of(name) for name in sorted(names) if not name.startswith("_")}
    return {name: arguments for name, arguments in found.items() if arguments is not None}


def _tensors_of(name: str) -> list[int | str] | None:
    forms = [
        [(argument.name, str(argument.type)) for argument in schema.arguments if argument.name != "out"]
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    ]
    for call in _calls(name):
        try:
            parameters = inspect.signature(call).parameters.values()
        except ValueError:  # torch's own, in C++, declare nothing
            continue
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return None
        forms.append([(parameter.name, str(parameter.annotation)) for parameter in parameters])
    if not forms:
        return None
    positions = {place for form in forms for place, (_, kind) in enumerate(form) if "Tensor" in kind}
    keywords = {word for form in forms for word, kind in form if "Tensor" in kind and word != "self"}
    return [*sorted(positions), *sorted(keywords)]


def keeping_dimensions(methods: Iterable[str], functions: Iterable[str]) -> list[str]:
    """The plain names of which every call that works, on a tensor with one dimension, gives tensors with some."""
    names = {*methods, *(name.rpartition(".")[2] for name in functions)}
    return sorted(name for name in names if not name.startswith("_") and _keeps(name))


def _keeps(name: str) -> bool:
    results = [result for call in _calls(name) for result in _results(call)]
    return bool(results) and all(result.dim() > 0 for result in results)


def _calls(name: str) -> Iterator[Callable[..., Any]]:
    if callable(getattr(torch.Tensor, name, None)):
        yield getattr(torch.Tensor, name)
    for namespace in _NAMESPACES:
        if callable(getattr(namespace, name, None)):
            yield getattr(namespace, name)


def _results(call: Callable[..., Any]) -> list[torch.Tensor]:
    """The tensors that calls give for vectors or, if none takes those, for the smallest tensors that it takes."""
    for shapes in ([(3,), (1,)], [(3, 3), (1, 1)], [(1, 3, 3), (1, 1, 1)], [(1, 1, 3, 3)]):
        results = [leaf for shape in shapes for leaf in _given(call, shape)]
        if results:
            return results
    return []


def _given(call: Callable[..., Any], shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
    for dtype in (torch.float, torch.long, torch.bool):
        sample = torch.ones(shape, dtype=dtype)
        index = torch.zeros(shape, dtype=torch.long)
        alone = ((), (0,), (sample,), (0, 0), (0, index), (0, index, sample), (2.0,), (sample, sample), ((1, 1),))
        for arguments in (*alone, (sample > 0, 2.0), (2,), (0, (3,)), (sample, 2), (torch.float32,)):
            done, result = attempt(call, sample.clone(), *arguments)
            if done:
                yield from (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
    done, result = attempt(call, [torch.ones(shape), torch.ones(shape)])
    if done:
        yield from (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
