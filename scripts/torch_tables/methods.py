"""Methods and attributes of tensors, and of modules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from torch_tables.running import attempt, kind_of
from torch_tables.signatures import OTHER, TENSOR, TENSORS, Overload, Stubs, declared, variants

Entry = dict[str, Any]

# Takes a device by the name of a tensor type, `t.type("torch.cuda.FloatTensor")`, which only runs where CUDA is.
_MOVES_BY_TYPE = {"type"}

_KINDS = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.complex32),
)


def tensor_methods(stubs: Stubs) -> tuple[dict[str, Entry], list[str]]:
    """The table of the public methods of torch.Tensor, and the names of those whose result is unknown."""
    table: dict[str, Entry] = {}
    unclassified = []
    for name in sorted(dir(torch.Tensor)):
        if name.startswith("_") or not callable(inspect.getattr_static(torch.Tensor, name)):
            continue
        overloads = _overloads(name, stubs)
        returns, changes = variants(overloads)
        if returns is None:
            returns = TENSOR if _is_device(name) else _returns_when_run(name)
        if returns is None:
            unclassified.append(name)
        names = {parameter.name for overload in overloads for parameter in overload.parameters}
        entry: Entry = {
            "returns": returns,
            "variants": [change.line() for change in changes],
            "device": "device" in names,
            "random": "generator" in names and returns != OTHER,
        }
        if returns in {TENSOR, TENSORS} or changes:
            entry["inplace"] = name.endswith("_") and not name.endswith("__")
            entry["moves"] = name in _MOVES_BY_TYPE or _is_device(name) or _moves(name)
            entry["like"] = "device" in names and not entry["moves"] and _stays(name)
            entry["same_object"] = entry["inplace"] or _is_device(name) or _may_return_self(name)
            entry["keeps_parameter"] = entry["inplace"] or _keeps_parameter(name)
        table[name] = {key: value for key, value in entry.items() if value or key == "returns"}
    return table, unclassified


def tensor_attributes(stubs: Stubs) -> dict[str, str]:
    """What the attributes of a tensor are: a tensor, or something else."""
    found = {}
    sample = torch.rand(4, 4, dtype=torch.complex64)
    for name in sorted({*dir(torch.Tensor), *stubs.attributes}):
        if name.startswith("_") or callable(inspect.getattr_static(torch.Tensor, name, None)):
            continue
        done, value = attempt(getattr, sample, name)
        found[name] = stubs.attributes.get(name) or (kind_of(value) if done else None) or OTHER
    return found


def module_methods() -> dict[str, Entry]:
    """The public methods of torch.nn.Module; `returns_self` where a call gives back the module itself."""
    table = {}
    for name in sorted(dir(torch.nn.Module)):
        if name.startswith("__") or not callable(inspect.getattr_static(torch.nn.Module, name)):
            continue
        module = torch.nn.ReLU()  # without state, so that a move to any device is possible anywhere
        state = torch.nn.Linear(2, 2)
        self_returned = moved = False
        for arguments in ((), ("cpu",), (torch.float32,), (lambda _: None,)):
            done, result = attempt(getattr(module, name), *arguments)
            self_returned = self_returned or (done and result is module)
        for keywords in ({"device": "meta"}, {"device": torch.device("meta")}):
            attempt(getattr(state, name), **keywords)
            attempt(getattr(state, name), *keywords.values())
            moved = moved or any(parameter.is_meta for parameter in state.parameters())
        entry = {"returns_self": self_returned, "moves": moved or (self_returned and _is_device(name))}
        table[name] = {key: value for key, value in entry.items() if value}
    return table


def module_attributes() -> list[str]:
    """The names of what every module holds that is no method."""
    names = {*dir(torch.nn.Module), *vars(torch.nn.Module())}
    return sorted(
        name
        for name in names
        if not name.startswith("__") and not callable(inspect.getattr_static(torch.nn.Module, name, None))
    )


def _overloads(name: str, stubs: Stubs) -> list[Overload]:
    if name in stubs.methods:
        return stubs.methods[name]
    own = declared(getattr(torch.Tensor, name))
    if all(form.returns is None for form in own):
        own = declared(getattr(torch, name, None)) or own  # `t.stft()` says nothing, `torch.stft()` does
    return [
        Overload(tuple(p for p in form.parameters if p.name not in {"self", "input"}), form.returns) for form in own
    ]


def _arguments() -> Iterator[tuple[Any, ...]]:
    tensor = torch.ones(4, 4)
    mask, integers = tensor > 0, tensor.long()
    pair = torch.tensor([0, 1])
    yield from ((), (tensor,), (torch.float32,), ("cpu",), (0,), (0, 1), (4, 4), (tensor, tensor), ((4, 4),), (0.5,))
    yield from ((0, pair, tensor[:2]), (0, integers - 1, tensor), (2, 0), (mask, 0.5), (mask, tensor))
    yield from ((0, integers - 1, 1.0), (torch.bool,), (mask,), (integers,), (integers, tensor), (tensor[0], tensor[0]))
    yield from ((torch.Tensor,), (0, pair, 1.0), (lambda x: x,), (tensor, lambda x, _: x), (False,))


def _returns_when_run(name: str) -> str | None:
    for arguments in _arguments():
        for tensor in (torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)):
            done, result = attempt(getattr(tensor, name), *arguments)
            if done:
                return kind_of(result)
    return None


def _is_device(name: str) -> bool:
    done, _ = attempt(torch.device, name)
    return done


def _moves(name: str) -> bool:
    """Whether the method of a tensor on the CPU can give a tensor on another device (here "meta")."""
    for arguments, keywords in (
        (("meta",), {}),
        ((), {"device": "meta"}),
        ((torch.ones(4, 4, device="meta"),), {}),
    ):
        done, result = attempt(getattr(torch.ones(4, 4), name), *arguments, **keywords)
        if done and isinstance(result, torch.Tensor) and result.is_meta and not name.startswith("new_"):
            return True
    return False


def _stays(name: str) -> bool:
    """Whether what the method makes is on the device of its tensor if no device is given."""
    for arguments in ((), (2,), ((2,),), ((2,), 1.0)):
        done, result = attempt(getattr(torch.ones(4, device="meta"), name), *arguments)
        if done:
            return isinstance(result, torch.Tensor) and result.is_meta
    return False


def _may_return_self(name: str) -> bool:
    for dtype in _KINDS:
        for layout in (torch.Tensor.clone, torch.Tensor.to_sparse):
            for arguments in _arguments():
                done, tensor = attempt(layout, torch.ones(4, 4, dtype=dtype))
                if not done:
                    continue
                done, result = attempt(getattr(tensor, name), *arguments)
                if done and result is tensor:
                    return True
    return False


def _keeps_parameter(name: str) -> bool:
    for arguments in _arguments():
        parameter = torch.nn.Parameter(torch.ones(4, 4))
        with torch.no_grad():
            done, result = attempt(getattr(parameter, name), *arguments)
        if done and result is parameter:
            return True
    return False


def distribution_members() -> dict[str, str | None]:
    """What the public methods of a distribution return and its properties are."""
    samples = (
        torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
        torch.distributions.Categorical(torch.ones(2) / 2),
    )
    found: dict[str, str | None] = {}
    for name in sorted(dir(torch.distributions.Distribution)):
        if name.startswith("_"):
            continue
        for distribution in samples:
            for arguments in ((), (torch.zeros(2),), (2,), ((2,),)):
                done, result = attempt(_member, distribution, name, arguments)
                if done and found.get(name) is None:
                    found[name] = kind_of(result)
        found.setdefault(name, None)
    return found


def _member(owner: object, name: str, arguments: tuple[Any, ...]) -> object:
    value = getattr(owner, name)
    return value(*arguments) if inspect.ismethod(value) else value
