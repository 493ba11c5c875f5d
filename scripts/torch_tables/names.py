"""The public names of torch: namespaces, the objects in them, and which names mean the same object."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

# Where code that builds and runs models finds functions and classes. A list, because torch holds hundreds of public
# modules, most of them (compilers, quantisation, exporters) far from models and slow or impossible to import anywhere.
NAMESPACES = (
    *("torch", "torch.functional", "torch.random", "torch.linalg", "torch.fft", "torch.special", "torch.sparse"),
    *("torch.nested", "torch.signal.windows", "torch.cuda", "torch.amp", "torch.autograd", "torch.autograd.variable"),
    *("torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.parameter", "torch.nn.parallel", "torch.nn.utils"),
    *("torch.nn.utils.rnn", "torch.nn.utils.parametrizations", "torch.nn.utils.parametrize"),
    *("torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "torch.nn.utils.clip_grad"),
    *("torch.nn.utils.convert_parameters", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils"),
    *("torch.distributions", "torch.utils.checkpoint", "torch.func", "torch.types", "torch.serialization"),
)
# Packages whose modules hold the classes that the namespaces above re-export.
_HOMES = ("torch.nn.modules", "torch.nn.parallel", "torch.optim", "torch.distributions")


def modules() -> dict[str, ModuleType]:
    """The modules to look into, by their full names."""
    names = {*NAMESPACES, *_HOMES}
    for home in _HOMES:
        names |= {f"{home}.{name}" for name in _files(Path(importlib.import_module(home).__path__[0]))}
    return {name: importlib.import_module(name) for name in sorted(names)}


def _files(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.py"):
        if not path.stem.startswith("_"):
            yield path.stem


def namespaces() -> list[str]:
    """The full names of all public modules of torch, from its files: to import them all would need what is not here."""
    root = Path(torch.__file__).parent
    found = {"torch", "torch.ops", "torch.classes"}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") or part in {"testing", "test"} for part in parts):
            found.add(".".join(("torch", *parts)))
    return sorted(found)


def is_of_torch(value: object) -> bool:
    """Whether torch made `value`, rather than imported it from elsewhere."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == "torch"
    home = getattr(value, "__module__", None)
    if home is None:
        return inspect.isbuiltin(value)
    return isinstance(home, str) and home.partition(".")[0] == "torch"


class Names:
    """Which objects the names in `modules` stand for.

    Outside of NAMESPACES only classes count, private names only where `also_private` says so of the object.
    """

    def __init__(self, modules: dict[str, ModuleType], also_private: Callable[[object], bool]) -> None:
        self._objects: dict[int, Any] = {}
        self._names: dict[int, list[str]] = {}
        for module_name, module in modules.items():
            for name in dir(module):
                value = inspect.getattr_static(module, name)
                if isinstance(value, ModuleType) or not is_of_torch(value):
                    continue
                if also_private(value) or (
                    not name.startswith("_") and (module_name in NAMESPACES or isinstance(value, type))
                ):
                    self.add(f"{module_name}.{name}", value)

    def add(self, name: str, value: object) -> None:
        """Let `name` stand for `value`."""
        self._objects[id(value)] = value
        self._names.setdefault(id(value), []).append(name)

    def canonical(self, value: object) -> str | None:
        """The shortest public name of `value`."""
        return self._best(id(value)) if id(value) in self._names else None

    def _best(self, key: int) -> str:
        home = getattr(self._objects[key], "__module__", None)

        def rank(name: str) -> tuple[int, int, bool, int, str]:
            parts = name.split(".")
            private = sum(part.startswith("_") for part in parts)
            return private, len(parts), name.rpartition(".")[0] != home, len(name), name

        return min(self._names[key], key=rank)

    def objects(self) -> list[tuple[str, Any]]:
        """All objects under their canonical names, sorted by these."""
        return sorted(((self._best(key), value) for key, value in self._objects.items()), key=lambda pair: pair[0])

    def aliases(self, known: set[str]) -> dict[str, str]:
        """The other names of the objects whose canonical names are `known`."""
        found: dict[str, str] = {}
        for key, names in self._names.items():
            best = self._best(key)
            if best in known:
                found |= {name: best for name in names if name != best}
        return found


def module_aliases(modules: dict[str, ModuleType]) -> dict[str, str]:
    """Names of modules that are reached through another one that imported them, such as torch.nn.functional.torch."""
    return {
        f"{home}.{name}": value.__name__
        for home, module in modules.items()
        if home in NAMESPACES
        for name, value in vars(module).items()
        if isinstance(value, ModuleType) and value.__name__ in modules and value.__name__ != f"{home}.{name}"
    }


def exports(module: ModuleType) -> list[str]:
    """The names of torch's own things that `from module import *` binds."""
    public = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return sorted({name for name in public if is_of_torch(getattr(module, name, None)) or _is_constant(module, name)})


def _is_constant(module: ModuleType, name: str) -> bool:
    return isinstance(getattr(module, name, None), torch.dtype | torch.layout | torch.memory_format)
