"""What the modules of an installed package leave behind when they move, told by torch.

Every `nn.Module` class of the package is built, with arguments guessed by their names and annotations, and so is every
model of its `list_models()`, if it has that. While one is built, the source line of each assignment to an attribute of
a module is noted. Then it is moved, and what has not moved is put down to the line that assigned it.

Each is built in a process of its own, with a time limit. This runs the package: do it in an environment made for that.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

SKIPPED = re.compile(r"\.(tests?|_test|testing|conftest|scripts?|examples?|benchmarks?|cli|__main__)(\.|$)")
SECONDS_EACH = 40
MOST_MODELS = 120
SIZES = (16, 8, 64, 3, 1, 2)
"""The numbers that are tried, in turn, for what has no better guess."""
DEEPEST = 4
REGISTERED = {"_parameters", "_buffers", "_modules"}
CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
GUESSES: tuple[tuple[str, Any], ...] = (
    (r"num_heads|n_head|heads|groups", 4),
    (r"kernel|ksize|window_size|patch_size|filter_size", 3),
    (r"stride|dilation|layers|depth|blocks", 2),
    (r"drop|prob|eps|alpha|beta|gamma|lr|momentum|rate|sigma|scale|temperature|ratio", 0.1),
    (r"pad", 1),
    (r"num_class|n_class|classes|vocab|num_embeddings|tokens", 10),
    (r"image_size|img_size|input_size|resolution|height|width|size", 32),
    (r"act|nonlinearity", nn.ReLU()),
    (r"norm", nn.LayerNorm),
    (r"module|model|net|encoder|decoder|backbone|block|layer|head|fn|func", nn.Identity()),
)
ANNOTATED: tuple[tuple[str, Callable[[int], Any]], ...] = (
    (r"bool", lambda size: False),
    (r"module", lambda size: nn.Identity()),
    (r"callable", lambda size: nn.Identity()),
    (r"tensor", lambda size: torch.rand(size, size)),
    (r"tuple\[(int|float), (int|float)\]", lambda size: (size, size)),
    (r"(list|sequence|iterable)\[int\]", lambda size: [size, size]),
    (r"\bstr\b", lambda size: "mean"),
    (r"float", lambda size: 0.1),
)


@dataclass(frozen=True)
class Stray:
    """Something that did not move. `file` and `line` are where it was assigned, `also` the other lines that had
    assigned the attribute before; `argument` says that the caller had handed it in. `kind` is `tensor`, `parameter`,
    `module`, `mode` (a layer that `eval()` does not reach), `object` or `container of` one of them."""

    owner: str
    attr: str
    path: str
    kind: str
    file: str
    line: int
    argument: bool
    also: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Write:
    """One assignment to an attribute of a module, and the kind of its value."""

    file: str
    line: int
    kind: str
    argument: bool

    @property
    def decided_by_caller(self) -> bool:
        """Whether another caller may hand in what stays behind, so that nothing can be said of the line."""
        return self.argument and self.kind.startswith("container of")


class Recorder:
    """Notes all assignments to attributes of modules. The modules are kept alive, so that their ids stay theirs."""

    def __init__(self) -> None:
        self.writes: dict[tuple[int, str], list[Write]] = {}
        self._modules: list[nn.Module] = []
        self._plain = nn.Module.__setattr__

    def __enter__(self) -> Recorder:
        plain, note = self._plain, self._note

        def assign(module: nn.Module, name: str, value: Any) -> None:
            note(module, name, value, sys._getframe(1))
            plain(module, name, value)

        nn.Module.__setattr__ = assign  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *exception: object) -> None:
        nn.Module.__setattr__ = self._plain  # type: ignore[method-assign]

    def _note(self, module: nn.Module, name: str, value: Any, frame: types.FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename == inspect.getfile(nn.Module):
            frame = frame.f_back
        while frame is not None and frame.f_code.co_name == "__setattr__":  # of a class of the package
            frame = frame.f_back
        if frame is None:
            return
        self._modules.append(module)
        write = Write(frame.f_code.co_filename, frame.f_lineno, kind_of(value), _handed_in(frame, value))
        self.writes.setdefault((id(module), name), []).append(write)


def _handed_in(frame: types.FrameType, value: Any) -> bool:
    """Tell whether a value is an argument of the running function."""
    code = frame.f_code
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
    return any(frame.f_locals.get(name) is value for name in names)


def kind_of(value: Any) -> str:
    """Name the kind of an assigned value."""
    if value is None:
        return "none"
    if isinstance(value, torch.Tensor):
        return "parameter" if isinstance(value, nn.Parameter) else "tensor"
    if isinstance(value, nn.Module):
        return "module"
    if isinstance(value, CONTAINERS):
        inner = {kind_of(item) for item in (value.values() if isinstance(value, dict) else value)} - {"other", "none"}
        return f"container of {'+'.join(sorted(inner))}" if inner else "empty" if not value else "other"
    return "other"


def strays(root: nn.Module, recorder: Recorder, package: str) -> Iterator[Stray]:
    """Move `root` to the meta device and yield what stays behind and was assigned by somebody, once for each attribute.

    The move makes new parameters; one to a GPU changes them in place, so other names of them count as moved.
    """
    moved = {id(parameter) for parameter in root.parameters()}
    root._apply(lambda tensor: tensor if is_lazy(tensor) else torch.empty_like(tensor, device="meta"))  # type: ignore[no-untyped-call]
    registered = {id(module) for module in root.modules()}
    for path, module in root.named_modules():
        for name, value in list(vars(module).items()):
            writes = recorder.writes.get((id(module), name))
            if name in REGISTERED or writes is None:
                continue
            left = next(_left_behind(value, registered, moved, package, 0, set()), None)
            if left is not None:
                kind = f"container of {left[1]}" if isinstance(value, CONTAINERS) else left[1]
                last = writes[-1]
                also = sorted({write.line for write in writes if write.file == last.file} - {last.line})
                owner = f"{type(module).__module__}.{type(module).__qualname__}"
                where = f"{path}.{name}{left[0]}".lstrip(".")
                yield Stray(owner, name, where, kind, last.file, last.line, last.argument, also)


def _left_behind(
    value: Any, registered: set[int], moved: set[int], package: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, str]]:
    """Yield the path and kind of each thing that stays behind."""
    if id(value) in seen or depth > DEEPEST:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if not value.is_meta and id(value) not in moved:
            yield "", "parameter" if isinstance(value, nn.Parameter) else "tensor"
    elif isinstance(value, nn.Module):
        if id(value) not in registered:
            if any(True for _ in itertools.chain(value.parameters(), value.buffers())):
                yield "", "module"
            elif any("training" in _names(part) for part in value.modules()):
                yield "", "mode"
    else:
        for step, held in _held_by(value, package):
            for path, kind in _left_behind(held, registered, moved, package, depth + 1, seen):
                yield step + path, "object" if kind == "tensor" and step.startswith(".") else kind


def _names(module: nn.Module) -> tuple[str, ...]:
    code = getattr(module.forward, "__code__", None)
    return code.co_names if isinstance(code, types.CodeType) else ()


def _held_by(value: Any, package: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", held) for key, held in value.items())
    elif isinstance(value, CONTAINERS):
        yield from ((f"[{number}]", held) for number, held in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((f".partial{number}", held) for number, held in enumerate((value.func, *value.args)))
        yield from ((f".partial.{name}", held) for name, held in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not filled yet
                yield f".<{name}>", cell.cell_contents
    elif not isinstance(value, (type, types.ModuleType)):
        ours = type(value).__module__.split(".")[0] == package
        if ours or isinstance(value, torch.distributions.Distribution):
            yield from ((f".{name}", held) for name, held in getattr(value, "__dict__", {}).items())


def build(cls: type[nn.Module]) -> nn.Module:
    """Make an instance, with guessed arguments. Raises what the last attempt raises."""
    parameters = list(inspect.signature(cls).parameters.values())
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [one for one in parameters if one.default is one.empty and one.kind in named]
    for size in SIZES[:-1] if needed else ():
        with contextlib.suppress(Exception):  # a constructor with a wrong guess may raise anything
            return _build(cls, needed, size)
    return _build(cls, needed, SIZES[-1])


def _build(cls: type[nn.Module], needed: list[inspect.Parameter], size: int) -> nn.Module:
    positional = [guess(one, size) for one in needed if one.kind is one.POSITIONAL_ONLY]
    return cls(*positional, **{one.name: guess(one, size) for one in needed if one.kind is not one.POSITIONAL_ONLY})


def guess(parameter: inspect.Parameter, size: int) -> Any:
    """Guess an argument by its annotation and name."""
    if parameter.annotation is not parameter.empty:
        for pattern, make in ANNOTATED:
            if re.search(pattern, str(parameter.annotation).lower()):
                return make(size)
    for pattern, value in GUESSES:
        if re.search(pattern, parameter.name.lower()):
            return value
    return size


def _observed(make: Callable[[], Any], package: str, inside: str) -> dict[str, Any]:
    with Recorder() as recorder:
        root = make()
    if not isinstance(root, nn.Module):
        return {"error": "no module"}
    lines = {
        (write.file, write.line, name, write.kind)
        for (_, name), writes in recorder.writes.items()
        for write in writes
        if not write.decided_by_caller
    }
    found = [stray for stray in strays(root, recorder, package) if stray.file.startswith(inside)]
    earlier = sorted({(stray.file, line, stray.attr) for stray in found for line in stray.also})
    return {
        "strays": [asdict(stray) for stray in found],
        "lines": sorted(line for line in lines if line[0].startswith(inside)),
        "earlier": earlier,
    }


def in_process(job: Callable[[], dict[str, Any]], seconds: int) -> dict[str, Any]:
    """Run a job in a copy of this process that is ended after some seconds; `error` says why there is no answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        signal.alarm(seconds)
        try:
            answer = job()
        except BaseException as error:  # noqa: BLE001 - whatever a constructor raises, `SystemExit` too
            answer = {"error": type(error).__name__}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"error": "ended"}
    assert isinstance(answer, dict)
    return answer


def jobs(package: types.ModuleType) -> dict[str, Callable[[], Any]]:
    """Return a function for each thing to build: the module classes of all files, and the models by name."""
    name = package.__name__
    for info in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda broken: None):
        if not SKIPPED.search(info.name):
            try:
                importlib.import_module(info.name)
            except BaseException:  # noqa: BLE001 - a file of the package may need what is not installed, or exit
                continue
    found: dict[str, Callable[[], Any]] = {}
    for file in [module for key, module in list(sys.modules.items()) if key == name or key.startswith(f"{name}.")]:
        for value in list(vars(file).values()):
            if isinstance(value, type) and issubclass(value, nn.Module) and value.__module__.split(".")[0] == name:
                found[f"{value.__module__}.{value.__qualname__}"] = functools.partial(build, value)
    for place in (package, getattr(package, "models", None)):
        make = getattr(place, "create_model", None) or getattr(place, "get_model", None)
        list_models = getattr(place, "list_models", None)
        if make is not None and list_models is not None:
            models = list_models()
            for model in models[:: max(1, len(models) // MOST_MODELS)]:
                found[f"model {model}"] = functools.partial(make, model)
            break
    return found


def write_facts(package_name: str, target: Path, seconds: int) -> None:
    """Write what is known of a package to a JSON file, and say on standard output how much that is."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    package = importlib.import_module(package_name)
    assert package.__file__ is not None
    parent = f"{Path(package.__file__).parent.parent}{os.sep}"
    inside = f"{parent}{package_name}{os.sep}"
    end = time.monotonic() + seconds
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    lines: dict[tuple[str, int, str], set[str]] = {}
    neutral: set[tuple[str, int, str]] = set()
    failed: collections.Counter[str] = collections.Counter()
    todo = jobs(package)
    built = 0
    for make in todo.values():
        if time.monotonic() > end:
            failed["no time left"] += 1
            continue
        job = functools.partial(_observed, make, package_name, inside)
        answer = in_process(job, SECONDS_EACH)
        if "error" in answer:
            failed[answer["error"]] += 1
            continue
        built += 1
        for stray in answer["strays"]:
            stray["file"] = stray["file"].removeprefix(parent)
            found.setdefault((stray["file"], stray["line"], stray["attr"]), stray)
        for file, line, name, kind in answer["lines"]:
            lines.setdefault((file.removeprefix(parent), line, name), set()).add(kind)
        neutral |= {(file.removeprefix(parent), line, name) for file, line, name in answer["earlier"]}
    clean = [
        [*place, sorted(kinds)]
        for place, kinds in sorted(lines.items())
        if place not in found and place not in neutral and not kinds <= {"none", "empty"}
    ]
    facts = {
        "package": package_name,
        "version": getattr(package, "__version__", "unknown"),
        "torch": torch.__version__,
        "tried": len(todo),
        "built": built,
        "failed": dict(failed),
        "strays": [found[place] for place in sorted(found)],
        "clean": clean,
    }
    target.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(f"{package_name}: built {built} of {len(todo)}, {len(found)} strays, {len(clean)} clean assignments")
