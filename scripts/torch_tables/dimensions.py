"""Which functions and methods never turn a tensor with dimensions into one without: those may join any device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_tables.running import attempt

_NAMESPACES = (torch, torch.nn.functional, torch.special, torch.fft, torch.linalg)


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
