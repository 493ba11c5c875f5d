"""Tests of branches, compared."""

from __future__ import annotations

import libcst as cst
import pytest

from torchstray.semantics.conditions import (
    ALWAYS,
    Reader,
    contradictory,
    either,
    negated,
    on_cuda,
    speaks_of_devices,
)
from torchstray.semantics.values import Conditions

MEANINGS = {
    "use_cuda": "not args.no_cuda and torch.cuda.is_available()",
    "CUDA": "True if torch.cuda.is_available() else False",
    "device": 'torch.device("cuda" if use_cuda else "cpu")',
    "name": '"cpu" if not CUDA else "cuda:0"',
    "again": "again",
}
READER = Reader(
    lambda name: cst.parse_expression(MEANINGS[name]) if name in MEANINGS else None,
    lambda name: {"t": "torch", "torch": "torch"}.get(name),
)


def holds(test: str, outcome: bool = True) -> Conditions:
    return READER.of(cst.parse_expression(test), outcome)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.cuda.is_available()", "not torch.cuda.is_available()"),
        ("t.cuda.is_available()", "not torch.cuda.is_available()"),
        ("use_cuda", "not use_cuda"),
        ("use_cuda", "args.no_cuda"),
        ("use_cuda", "not CUDA"),
        ("bool(CUDA)", "torch.cuda.device_count() == 0"),
        ("torch.cuda.device_count() > 1", "not torch.cuda.is_available()"),
        ("a and b", "not a or not b"),
        ("a is None", "a is not None"),
        ("a < b", "a >= b"),
        ('device.type == "cuda"', "not use_cuda"),
        ('device.type != "cpu"', "args.no_cuda"),
        ('"cuda" in str(device)', "not torch.cuda.is_available()"),
        ('name == "cpu"', "CUDA"),
    ],
)
def test_these_cannot_both_hold(one: str, other: str) -> None:
    assert contradictory(holds(one) | holds(other))
    assert contradictory(holds(one) | holds(one, outcome=False))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("args.parallel", "torch.cuda.is_available()"),
        ("not use_cuda", "torch.cuda.is_available()"),
        ("torch.cuda.device_count() <= 1", "torch.cuda.is_available()"),
        ("a or b", "not a"),
        ("again", "not a"),
    ],
)
def test_these_can(one: str, other: str) -> None:
    assert not contradictory(holds(one) | holds(other))


def test_when_a_device_is_not_the_cpu() -> None:
    assert READER.device(cst.parse_expression("device")) == holds("use_cuda")
    assert READER.device(cst.parse_expression("name")) == holds("CUDA")
    assert READER.device(cst.parse_expression('"cuda"')) is None
    assert READER.device(cst.parse_expression("args.device")) is None


def test_opposites() -> None:
    assert negated(holds("a and b")) == holds("a and b", outcome=False)
    assert negated(negated(on_cuda())) == on_cuda()
    assert either(holds("a"), ALWAYS) == ALWAYS


def test_what_speaks_of_devices() -> None:
    assert speaks_of_devices(holds("args.gpu is not None"))
    assert speaks_of_devices(on_cuda())
    assert not speaks_of_devices(holds("args.resume") | holds("torch.cuda.device_count() > 1", outcome=False))
