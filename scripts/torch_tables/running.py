"""Calls things of torch on small values, to see what they do where nothing declares it."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from torch_tables.signatures import MODULE, OTHER, TENSOR, TENSORS

# torch raises nearly everything for arguments of the wrong kind; what is run here is torch's own code only.
_REFUSALS = (Exception,)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings, no output, and memory that nobody initialised is filled with NaN or the greatest integer."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)
            logging.disable(logging.NOTSET)


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """A group of one process, without any network, for the layers that cannot be built without a group."""
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def attempt(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[bool, Any]:
    """Whether the call succeeds, and its result."""
    try:
        return True, call(*arguments, **keywords)
    except _REFUSALS:
        return False, None


def kind_of(value: object) -> str | None:
    """Classify a result as the tables do; None for an object that may hold tensors out of sight."""
    if isinstance(value, torch.Tensor):
        return TENSOR
    if isinstance(value, torch.nn.Module):
        return MODULE
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        kinds = {kind_of(item) for item in value}
        if kinds & {TENSOR, TENSORS}:
            return TENSORS
        return None if None in kinds else OTHER
    if isinstance(value, type):
        return OTHER
    if type(value).__module__.partition(".")[0] in {"builtins", "torch", "numpy"} and not callable(value):
        return OTHER
    return None


def same(left: object, right: object) -> bool:
    """Whether two results are equal, NaN being equal to itself."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if left.layout is not torch.strided or left.is_quantized:
            left, right = left.to_dense(), right.to_dense()
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        return torch.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(same(one, other) for one, other in zip(left, right, strict=True))
    return True


def first_success(
    call: Callable[..., Any], candidates: Iterable[tuple[Any, ...]]
) -> tuple[tuple[Any, ...], Any] | None:
    """The first argument list that `call` takes, with the result."""
    for arguments in candidates:
        done, result = attempt(call, *arguments)
        if done:
            return arguments, result
    return None
