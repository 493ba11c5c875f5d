"""Scripts of the examples are run by real torch, with another device in place of a GPU: on `meta`, tensors have no
numbers, but may not meet those of the CPU either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.rules.test_examples import read_marks
from torchstray.rules.model_not_moved import ModelNotMoved
from torchstray.rules.optimizer_misses_parameters import OptimizerMissesParameters
from torchstray.rules.rule import Bad

MOVED = [pytest.param(bad, id=str(number)) for number, bad in enumerate(ModelNotMoved.bad, 1)]
TRAINED = [
    pytest.param(bad, id=str(number))
    for number, bad in enumerate(OptimizerMissesParameters.bad, 1)
    if bad.repaired is not None
]
ELSEWHERE = ("accelerate", "project", "DataParallel", "weight.device")
"""What is not installed here, or cannot be done on a device without numbers."""
RUNNING = [
    pytest.param(good.code, id=good.why)
    for good in ModelNotMoved.good
    if not any(word in good.code for word in ELSEWHERE)
]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU of a kind: `cuda` is `meta`."""
    to_tensor, to_module = torch.Tensor.to, nn.Module.to
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self, *_, **__: to_tensor(self, "meta"))
    monkeypatch.setattr(nn.Module, "cuda", lambda self, *_: to_module(self, "meta"))
    yield


def run(code: str) -> dict[str, Any]:
    """The names that a script binds; it takes `cuda` for the name of the device `meta`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code.replace('"cuda"', '"meta"'), "<script>", "exec"), names)
    return names


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("bad", MOVED)
def test_a_module_that_is_not_moved_fails(bad: Bad) -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match=r"device|meta"):
        run(read_marks(bad.code).code)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("bad", MOVED)
def test_the_repaired_script_runs(bad: Bad) -> None:
    assert bad.repaired is not None
    run(bad.repaired)


@pytest.mark.parametrize("bad", MOVED)
def test_both_run_on_the_cpu(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bad.repaired is not None
    run(read_marks(bad.code).code)
    run(bad.repaired)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("code", RUNNING)
def test_the_look_alikes_run(code: str) -> None:
    run(code)


@pytest.mark.parametrize("bad", TRAINED)
def test_the_optimizer_misses_parameters(bad: Bad) -> None:
    assert _missed(run(read_marks(bad.code).code))
    assert bad.repaired is not None
    assert not _missed(run(bad.repaired))


def _missed(names: dict[str, Any]) -> bool:
    known = {id(parameter) for group in names["optimizer"].param_groups for parameter in group["params"]}
    return any(id(parameter) not in known for parameter in names["model"].parameters())
