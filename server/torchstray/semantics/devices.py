"""What torch's operations ask of the devices of their arguments, and which tests in a program ask for a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.names import children, dotted, walk

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
    return any(asks_for_device(child) for child in children(test))


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


def tensor_parameters(function: cst.FunctionDef) -> frozenset[str]:
    """The arguments that a function treats as nothing but tensors: it calls a tensor's methods, reads its shape, takes
    slices in several dimensions. The first argument of `forward` is one if nothing speaks against it."""
    names = {parameter.name.value for parameter in (*function.params.params, *function.params.kwonly_params)}
    tensors: set[str] = set()
    others: set[str] = set()
    for node in walk(function.body):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value in names:
            attribute = node.attr.value
            if attribute in _TENSOR_ATTRIBUTES or is_tensor_method(attribute):
                tensors.add(node.value.value)
            elif attribute not in _SHARED_METHODS and torch_api.attribute(attribute) is None:
                others.add(node.value.value)
        elif isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
            if len(node.slice) > 1:
                tensors.add(node.value.value)
            if _is_key(node):
                others.add(node.value.value)
        elif isinstance(node, cst.Call):
            others |= {node.func.value} if isinstance(node.func, cst.Name) else set()
            others |= set(_numbers_in(node))
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            tensors |= {side.value for side in (node.left, node.right) if isinstance(side, cst.Name)}
    first = next(iter(function.params.params[1:]), None)
    if function.name.value == "forward" and first is not None and first.default is None:
        tensors.add(first.name.value)
    return frozenset((tensors & names) - others)


def _is_key(node: cst.Subscript) -> bool:
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)


def _numbers_in(call: cst.Call) -> Iterator[str]:
    """The names that a call takes for numbers, or for containers."""
    called = dotted(call.func) or ""
    last = called.rpartition(".")[2]
    counts = called in {"range", "int", "isinstance", "enumerate", "zip", "dict", "sorted", "str"}
    makes = last in {"zeros", "ones", "empty", "full", "arange", "eye", "rand", "randn", "linspace", "tensor"}
    if counts or makes:
        yield from (argument.value.value for argument in call.args if isinstance(argument.value, cst.Name))
