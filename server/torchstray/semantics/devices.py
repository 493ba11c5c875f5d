"""What torch's operations ask of the devices of their arguments, and which tests in a program ask for a device."""

from __future__ import annotations

import re

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.names import dotted

# Where torch's own signatures say nothing. In TensorIterator, and so in all element-wise operations, a 0-dim tensor on
# the CPU may join tensors on another device (PyTorch, "Tensor Views and broadcasting",
# aten/src/ATen/TensorIterator.cpp, `compute_types`: `common_device` skips CPU scalars). These are written by hand or
# call a library, and check all of their tensors (`c10::impl::check_and_update_common_device`, or the kernel's own
# check).
_STRICT = frozenset(
    {
        *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack"),
        *("meshgrid", "block_diag", "cartesian_prod", "tensordot", "einsum", "kron", "outer", "diag"),
        *("gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"),
        *("index_select", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_"),
        *("take", "take_along_dim", "embedding", "embedding_bag", "masked_select", "searchsorted", "bucketize"),
    }
)
# Arguments that belong on the CPU, or may stay there: by position (`self` of a method not counted) and keyword.
# Lengths: torch/nn/utils/rnn.py and aten/src/ATen/native/LossCTC.cpp; indices: TensorShape.cpp, `tensor_split`;
# values that are copied over: `copy_` crosses devices.
_FROM_THE_CPU: dict[str, tuple[frozenset[int], frozenset[str]]] = {
    "torch.nn.utils.rnn.pack_padded_sequence": (frozenset({1}), frozenset({"lengths"})),
    "torch.nn.functional.ctc_loss": (frozenset({2, 3}), frozenset({"input_lengths", "target_lengths"})),
    "torch.ctc_loss": (frozenset({2, 3}), frozenset({"input_lengths", "target_lengths"})),
    "torch.nn.CTCLoss": (frozenset({2, 3}), frozenset({"input_lengths", "target_lengths"})),
    "torch.tensor_split": (frozenset({1}), frozenset({"tensor_indices_or_sections", "indices"})),
    "torch.Tensor.tensor_split": (frozenset({0}), frozenset({"tensor_indices_or_sections", "indices"})),
    "torch.index_put": (frozenset({1}), frozenset({"indices"})),
    "torch.Tensor.index_put": (frozenset({0}), frozenset({"indices"})),
    "torch.Tensor.index_put_": (frozenset({0}), frozenset({"indices"})),
    "torch.Tensor.copy_": (frozenset({0}), frozenset({"src", "other"})),
    "torch.Tensor.set_": (frozenset({0}), frozenset({"source"})),
}
_CUDA = re.compile(r"cuda(:\d+)?")
_DEVICE_WORDS = ("cuda", "gpu", "device", "mps", "xpu", "npu", "is_available", "is_cpu", "is_meta")


def joins(name: str) -> bool:
    """Whether 0-dim tensors on the CPU may join tensors on another device in the function or method of this plain
    name."""
    return name not in _STRICT


def may_stay(name: str, key: int | str) -> bool:
    """Whether the argument of this position or keyword may be on the CPU while the others are not. `name` is the full
    name of a function, a class of layers that is called, or a method (`torch.Tensor.copy_`)."""
    positions, keywords = _FROM_THE_CPU.get(name, (frozenset(), frozenset()))
    return key in (positions if isinstance(key, int) else keywords)


def may_be_tensor(name: str, key: int | str) -> bool:
    """Whether the argument of this position (`self` of a method counted) or keyword may be a tensor in the function or
    method of this plain name: `x.roll(n)` takes a number, also from a tensor on the CPU."""
    known = torch_api.tensor_arguments(name)
    return known is None or key in known


def keeps_dimensions(name: str) -> bool:
    """Whether the function or method of this plain name never turns a tensor with dimensions into one without."""
    return name in torch_api.keeping_dimensions()


def asks_for_device(test: cst.CSTNode) -> bool:
    """Whether a test asks where something is or may go: `x.is_cuda`, `torch.cuda.is_available()`, `self.use_gpu`."""
    if isinstance(test, cst.Name):
        return any(word in test.value.lower() for word in _DEVICE_WORDS)
    if isinstance(test, cst.SimpleString):
        return any(word in test.value.lower() for word in _DEVICE_WORDS)
    return any(asks_for_device(child) for child in test.children)


def named_device(call: cst.Call, name: str | None) -> str | None:
    """The CUDA device that a call names itself, by a literal: `.cuda()`, `.cuda(1)`, `.to("cuda:0")`, `device="cuda"`
    for a factory or layer of torch, `torch.cuda.FloatTensor(…)`. `name` is the full name of the function, None for a
    method."""
    if name is not None:
        if name.startswith("torch.cuda.") and name.endswith("Tensor"):
            return "cuda"
        known = torch_api.function(name) is not None or torch_api.module_class(name) is not None
        return _literal_argument(call, None) if known else None
    if not isinstance(call.func, cst.Attribute):
        return None
    if call.func.attr.value == "to":
        return _literal_argument(call, 0)
    if call.func.attr.value != "cuda":
        return None
    places = [
        argument.value for argument in call.args if argument.keyword is None or argument.keyword.value == "device"
    ]
    if not places:
        return "cuda"
    number = places[0]
    return f"cuda:{number.value}" if isinstance(number, cst.Integer) else literal_device(number)


def _literal_argument(call: cst.Call, position: int | None) -> str | None:
    for place, argument in enumerate(call.args):
        named = argument.keyword is not None and argument.keyword.value == "device"
        if named or (argument.keyword is None and place == position):
            return literal_device(argument.value)
    return None


def literal_device(node: cst.BaseExpression) -> str | None:
    """The CUDA device that is written out: `"cuda"`, `torch.device("cuda:1")`, `torch.device("cuda", 1)`."""
    if isinstance(node, cst.SimpleString):
        text = node.evaluated_value
        return text if isinstance(text, str) and _CUDA.fullmatch(text) else None
    if isinstance(node, cst.Call) and (dotted(node.func) or "").rpartition(".")[2] == "device" and node.args:
        device = literal_device(node.args[0].value)
        if device is None or len(node.args) == 1:
            return device
        number = node.args[1].value
        return f"{device}:{number.value}" if isinstance(number, cst.Integer) else None
    return None


# What tensors have, and what other things that `forward` is given have as well.
_TENSOR_ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "device", "is_cuda", "requires_grad"})
_SHARED_METHODS = frozenset(
    {
        *dir(dict),
        *dir(list),
        *dir(str),
        *dir(complex),
        *("to", "cpu", "cuda", "type", "values", "indices", "clone", "detach", "numpy", "float", "half", "sum"),
    }
)


def is_tensor_method(name: str) -> bool:
    """Whether a method of this name shows that something is a tensor."""
    return name not in _SHARED_METHODS and torch_api.method(name) is not None


_ATTRIBUTE = re.compile(r"(?<![\w.])(\w+)\.(\w+)")
_ITEM = re.compile(r"(?<![\w.])(\w+)\[([^\]\n]*)\]")
_CALLED = re.compile(r"(?<![\w.])(\w+)\(")
_PRODUCT = re.compile(r"(\w+)(?:\.t\(\)|\.T)? @ (\w+)")
_COUNTED = re.compile(
    r"(?:(?<![\w.])(?:range|int|isinstance|enumerate|zip|dict|sorted|str)"
    r"|\b(?:zeros|ones|empty|full|arange|eye|rand|randn|linspace|tensor))\(([^()]*)\)"
)


def text_of_function(function: cst.FunctionDef, statement: str) -> str:
    """The text of a function, cut out of that of the statement it stands in; all of that where several functions there
    have its name. (Where its node stands is known, too, but takes long to find out.)"""
    found = list(re.finditer(rf"^([ \t]*)(?:async +)?def +{function.name.value}\b", statement, re.MULTILINE))
    if len(found) != 1:
        return statement
    indent, rest = found[0][1], statement[found[0].end() :]
    end = re.search(rf"^{indent}(?:def |class |async |@)", rest, re.MULTILINE)
    return rest[: end.start()] if end is not None else rest


def tensor_parameters(function: cst.FunctionDef, text: str) -> frozenset[str]:
    """The arguments that a function treats as nothing but tensors: its `text` calls a tensor's methods, reads its
    shape, takes slices in several dimensions. The first argument of `forward` is one if nothing speaks against it."""
    names = {parameter.name.value for parameter in (*function.params.params, *function.params.kwonly_params)}
    tensors: set[str] = set()
    others = {name for name in _CALLED.findall(text) if name in names}
    for name, attribute in _ATTRIBUTE.findall(text):
        if name not in names:
            continue
        if attribute in _TENSOR_ATTRIBUTES or is_tensor_method(attribute):
            tensors.add(name)
        elif attribute not in _SHARED_METHODS and torch_api.attribute(attribute) is None:
            others.add(name)
    for name, index in _ITEM.findall(text):
        if "," in index:
            tensors.add(name)
        if index[:1] in {"'", '"'}:
            others.add(name)
    for sides in _PRODUCT.findall(text):
        tensors.update(sides)
    for arguments in _COUNTED.findall(text):
        others.update(argument.strip() for argument in arguments.split(","))
    first = next(iter(function.params.params[1:]), None)
    if function.name.value == "forward" and first is not None and first.default is None:
        tensors.add(first.name.value)
    return frozenset((tensors & names) - others)
