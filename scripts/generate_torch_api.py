"""Write the tables of torch's API that torchstray knows it by, from the torch that is installed.

Run it with the torch of the development environment: `python scripts/generate_torch_api.py`. With `--check` nothing is
written and the exit status is 1 if the tables are stale; with `--verbose` what could not be classified is printed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torch_tables import methods, names
from torch_tables.functions import Functions, kind_of_dtype
from torch_tables.mixing import keeping_dimensions, tensor_arguments
from torch_tables.modules import Modules
from torch_tables.running import attempt, kind_of, process_group, quiet
from torch_tables.signatures import Stubs

TABLES = Path(__file__).parents[1] / "server" / "torchstray" / "semantics" / "torch_api.json"


def generate() -> tuple[dict[str, Any], list[str]]:
    """The tables, and what could not be classified."""
    torch.set_num_threads(1)
    stubs = Stubs()
    modules = names.modules()
    public = names.Names(modules, also_private=_is_module_class)
    for cls_name, cls in [pair for pair in public.objects() if _is_module_class(pair[1])]:
        for name, value in _static_functions(cls):
            public.add(f"{cls_name}.{name}", value)

    objects = dict(public.objects())
    classes = {name: value for name, value in objects.items() if _is_module_class(value)}
    functions = Functions(stubs, public.canonical)
    function_table = {name: functions.entry(name, value) for name, value in objects.items() if _is_function(value)}
    function_table |= {name: functions.constructor(value) for name, value in objects.items() if _makes_tensor(value)}
    layers = Modules(classes)
    module_table = {name: layers.entry(name, public.canonical) for name in classes}
    method_table, unknown_methods = methods.tensor_methods(stubs)
    kinds = {name: kind for name, value in objects.items() if (kind := _kind(value))}
    tensor_functions = [name for name, entry in function_table.items() if entry["returns"] in {"tensor", "tensors"}]
    tables = {
        "attributes": methods.tensor_attributes(stubs),
        "distribution_members": methods.distribution_members(),
        "distributions": _constructors(objects, torch.distributions.Distribution),
        "dtypes": {
            f"torch.{name}": kind_of_dtype(value)
            for name, value in vars(torch).items()
            if isinstance(value, torch.dtype)
        },
        "exports": {name: names.exports(module) for name, module in modules.items() if name in names.NAMESPACES},
        "functions": function_table,
        "keeping_dimensions": keeping_dimensions(method_table, tensor_functions),
        "kinds": kinds,
        "methods": method_table,
        "module_attributes": methods.module_attributes(),
        "module_methods": methods.module_methods(),
        "modules": module_table,
        "namespaces": names.namespaces(),
        "optimizers": _constructors(objects, torch.optim.Optimizer),
        "tensor_arguments": tensor_arguments(method_table, tensor_functions),
        "torch": torch.__version__.partition("+")[0],
    }
    tables["aliases"] = names.module_aliases(modules) | public.aliases({*function_table, *module_table, *kinds})
    unclassified = [
        *(f"function {name}" for name in functions.unclassified),
        *(f"module {name}" for name in layers.unclassified),
        *(f"method {name}" for name in unknown_methods),
    ]
    return tables, unclassified


def render(tables: dict[str, Any]) -> str:
    """The tables as JSON, sorted, with one entry a line."""
    sections = []
    for title, content in sorted(tables.items()):
        if isinstance(content, str):
            sections.append(f"{_json(title)}: {_json(content)}")
        elif isinstance(content, list):
            sections.append(f"{_json(title)}: [\n" + ",\n".join(map(_json, content)) + "\n]")
        else:
            lines = ",\n".join(f"{_json(key)}: {_json(value)}" for key, value in sorted(content.items()))
            sections.append(f"{_json(title)}: {{\n{lines}\n}}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _is_module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


def _makes_tensor(value: object) -> bool:
    """Whether `value` is a class whose instances are tensors, such as torch.FloatTensor and torch.autograd.Variable."""
    if not isinstance(value, type) or value is object:
        return False
    if isinstance(value, type(torch.FloatTensor)):
        return True
    # Variable is no base class of a tensor and yet claims it as an instance.
    return isinstance(torch.ones(2), value) and kind_of(attempt(value, torch.ones(2))[1]) == "tensor"


def _static_functions(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    """The class methods and static methods that `cls` itself defines."""
    return [
        (name, getattr(cls, name))
        for name, value in vars(cls).items()
        if isinstance(value, staticmethod | classmethod) and not name.startswith("_")
    ]


def _kind(value: object) -> str | None:
    """What an instance of a class is to the analysis."""
    if not isinstance(value, type):
        return None
    for cls, kind in (
        (nn.Module, "module"),
        (nn.Parameter, "parameter"),
        (nn.Buffer, "buffer"),
        (torch.optim.Optimizer, "optimizer"),
        (torch.optim.lr_scheduler.LRScheduler, "scheduler"),
        (torch.distributions.Distribution, "distribution"),
        (torch.autograd.Function, "autograd_function"),
        (torch.Size, "size"),
        (torch.device, "device"),
        (torch.dtype, "dtype"),
        (torch.Generator, "generator"),
        (nn.utils.rnn.PackedSequence, "packed_sequence"),
    ):
        if issubclass(value, cls):
            return kind
    return "tensor" if issubclass(value, torch.Tensor) else None


def _constructors(objects: dict[str, Any], base: type) -> dict[str, list[str]]:
    """The classes derived from `base` with the names of their constructors' parameters."""
    return {
        name: [p.name for p in inspect.signature(value).parameters.values() if p.kind is not p.VAR_KEYWORD]
        for name, value in objects.items()
        if isinstance(value, type) and issubclass(value, base)
    }


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the tables are stale")
    parser.add_argument("--verbose", action="store_true", help="print what could not be classified")
    options = parser.parse_args()
    with quiet(), process_group():
        tables, unclassified = generate()
    if options.verbose:
        print(*unclassified, sep="\n")
    text = render(tables)
    if options.check:
        stale = not TABLES.exists() or TABLES.read_text(encoding="utf-8") != text
        if stale:
            print(f"{TABLES} is stale: run scripts/generate_torch_api.py", file=sys.stderr)
        return int(stale)
    TABLES.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
