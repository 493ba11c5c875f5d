"""The tables of torch's API, held against the torch that is installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchstray.semantics import torch_api
from torchstray.semantics.torch_api import State

ROOT = Path(__file__).parents[2]
NOTHING = State(parameters=False, buffers=False, mode=False)


def resolve(name: str) -> Any:
    """The object that a qualified name means."""
    module, _, rest = name.partition(".")
    value: Any = import_module(module)
    for part in rest.split("."):
        value = getattr(value, part) if hasattr(value, part) else import_module(f"{value.__name__}.{part}")
    return value


def state_of(module: nn.Module) -> tuple[bool, bool]:
    return any(True for _ in module.parameters()), any(True for _ in module.buffers())


def known(name: str) -> torch_api.ModuleClass:
    found = torch_api.module_class(name)
    assert found is not None
    return found


def called(name: str) -> torch_api.Function:
    found = torch_api.function(name)
    assert found is not None
    return found


def of_tensor(name: str) -> torch_api.Method:
    found = torch_api.method(name)
    assert found is not None
    return found


def test_tables_are_what_the_generator_makes_of_the_pinned_torch() -> None:
    if torch.__version__.partition("+")[0] != torch_api.torch_version():
        pytest.skip(f"the tables are made from torch {torch_api.torch_version()}, this is {torch.__version__}")
    script = ROOT / "scripts" / "generate_torch_api.py"
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_loads_without_torch_and_fast() -> None:
    program = (
        "import sys, time; from torchstray.semantics import torch_api; start = time.perf_counter();"
        "torch_api.function('torch.zeros'); print(time.perf_counter() - start, 'torch' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT / "server")}
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    seconds, imported = output.stdout.split()
    assert imported == "False"
    assert float(seconds) < 0.2  # five milliseconds on an idle machine


def test_facts_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        called("torch.zeros").device = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.module.Module", "torch.nn.Module"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.nn.parameter.Buffer", "torch.nn.Buffer"),
        ("torch.functional.einsum", "torch.einsum"),
        ("torch.nn.functional.conv2d", "torch.conv2d"),
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.distributions.normal.Normal", "torch.distributions.Normal"),
        ("torch.nn.modules.batchnorm._BatchNorm", "torch.nn.modules.batchnorm._BatchNorm"),
        ("torch.nn.functional.torch", "torch"),
        ("numpy.zeros", "numpy.zeros"),
    ],
)
def test_canonical(alias: str, name: str) -> None:
    assert torch_api.canonical(alias) == name
    if alias.startswith("torch"):
        assert resolve(alias) is (torch if name == "torch" else resolve(name))


# functions


@pytest.mark.parametrize(
    ("call", "name", "kind"),
    [
        (lambda: torch.zeros(2), "torch.zeros", "float"),
        (lambda: torch.ones(2), "torch.ones", "float"),
        (lambda: torch.arange(3), "torch.arange", "int"),
        (lambda: torch.linspace(0, 1, 3), "torch.linspace", "float"),
        (lambda: torch.eye(3), "torch.eye", "float"),
        (lambda: torch.randperm(3), "torch.randperm", "int"),
        (lambda: torch.randint(3, (2,)), "torch.randint", "int"),
        (lambda: torch.tril_indices(3, 3), "torch.tril_indices", "int"),
        (lambda: torch.hann_window(3), "torch.hann_window", "float"),
        (lambda: torch.fft.fftfreq(3), "torch.fft.fftfreq", "float"),
        (lambda: torch.signal.windows.hann(3), "torch.signal.windows.hann", "float"),
        (lambda: torch.scalar_tensor(3), "torch.scalar_tensor", "float"),
        (lambda: torch.LongTensor([1]), "torch.LongTensor", "int"),
        (lambda: torch.BoolTensor([True]), "torch.BoolTensor", "bool"),
        (
            lambda: nn.Transformer.generate_square_subsequent_mask(3),
            "torch.nn.Transformer.generate_square_subsequent_mask",
            "float",
        ),
    ],
)
def test_factories_make_tensors_of_their_kind(call: Callable[[], torch.Tensor], name: str, kind: str) -> None:
    assert called(name).factory
    assert called(name).returns == "tensor"
    assert called(name).dtype_kind == kind == torch_api.dtype_kind(str(call().dtype))


@pytest.mark.parametrize("name", ["torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.full"])
def test_factories_that_follow_their_data(name: str) -> None:
    assert called(name).factory
    assert called(name).dtype_kind == "data"


def test_uninitialised() -> None:
    assert {called(f"torch.{name}").dtype_kind for name in ("empty", "empty_strided", "empty_permuted")} == {
        "uninitialised"
    }


@pytest.mark.parametrize(
    "name",
    [
        *(
            "torch.add",
            "torch.cat",
            "torch.stack",
            "torch.nn.functional.relu",
            "torch.nn.functional.one_hot",
            "torch.sum",
        ),
        *("torch.complex", "torch.cartesian_prod", "torch.zeros_like", "torch.norm", "torch.autograd.Variable"),
    ],
)
def test_what_computes_is_no_factory(name: str) -> None:
    assert called(name).returns == "tensor"
    assert not called(name).factory


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("rand", True), ("randn", True), ("randint", True), ("randperm", True), ("normal", True), ("zeros", False)),
        *(("bernoulli", True), ("multinomial", True), ("poisson", True), ("rand_like", True), ("zeros_like", False)),
        *(("nn.functional.dropout", True), ("nn.functional.relu", False), ("nn.init.xavier_uniform_", True)),
        *(("nn.init.ones_", False), ("empty", False), ("arange", False), ("tensor", False)),
    ],
)
def test_random(name: str, expected: bool) -> None:
    assert called(f"torch.{name}").random == expected


@pytest.mark.parametrize("name", ["zeros", "arange", "tensor", "randn", "full", "eye", "fft.fftfreq", "hann_window"])
def test_factories_take_a_device(name: str) -> None:
    assert called(f"torch.{name}").device


@pytest.mark.parametrize("name", ["from_numpy", "FloatTensor", "Tensor", "cat", "nn.functional.relu", "bernoulli"])
def test_no_device(name: str) -> None:
    assert not called(f"torch.{name}").device


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"])
def test_like(name: str) -> None:
    assert called(f"torch.{name}").like
    assert not called(f"torch.{name}").factory


def test_results_that_are_no_tensor() -> None:
    for name in ("torch.is_tensor", "torch.numel", "torch.manual_seed", "torch.cuda.is_available", "torch.equal"):
        assert called(name).returns == "other"
    for name in ("torch.linalg.svd", "torch.topk", "torch.split", "torch.meshgrid", "torch.std_mean", "torch.unbind"):
        assert called(name).returns == "tensors"
    assert called("torch.load").returns is None
    assert called("torch.compile").returns is None


def test_result_that_depends_on_the_arguments() -> None:
    maximum = called("torch.max")
    assert maximum.returned({0: ...}) == "tensor"
    assert maximum.returned({0: ..., 1: ...}) == "tensor"
    assert maximum.returned({0: ..., 1: 1}) == "tensors"
    assert maximum.returned({0: ..., "dim": ...}) == "tensors"
    pool = called("torch.nn.functional.max_pool2d")
    assert pool.returned({0: ..., 1: 2}) == "tensor"
    assert pool.returned({0: ..., 1: 2, "return_indices": False}) == "tensor"
    assert pool.returned({0: ..., 1: 2, "return_indices": True}) == "tensors"
    assert called("torch.unique").returned({0: ..., "return_inverse": True}) == "tensors"
    assert called("torch.where").returned({0: ...}) == "tensors"
    assert called("torch.where").returned({0: ..., 1: ..., 2: ...}) == "tensor"
    assert of_tensor("type").returned({}) == "other"
    assert of_tensor("type").returned({0: ...}) == "tensor"
    assert of_tensor("nonzero").returned({"as_tuple": True}) == "tensors"


def test_functions_that_give_modules() -> None:
    assert called("torch.nn.Embedding.from_pretrained").module == "torch.nn.Embedding"
    for name in ("torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.weight_norm"):
        assert called(name).returns == "module"
        assert called(name).same_object


# methods and attributes of tensors


def test_methods() -> None:
    for name in ("to", "cuda", "cpu", "type", "type_as", "xpu"):
        assert of_tensor(name).moves, name
    for name in ("float", "clone", "detach", "view", "new_zeros", "contiguous", "add", "copy_"):
        assert not of_tensor(name).moves, name
    for name in ("new_zeros", "new_ones", "new_full", "new_tensor", "new_empty", "new"):
        assert of_tensor(name).like, name
    for name in ("item", "tolist", "size", "dim", "numel", "numpy", "data_ptr", "backward"):
        assert of_tensor(name).returns == "other", name
    for name in ("chunk", "split", "unbind", "topk", "sort"):
        assert of_tensor(name).returns == "tensors", name
    for name in ("add_", "fill_", "normal_", "requires_grad_", "share_memory_", "detach_", "clamp_"):
        assert of_tensor(name).inplace, name
    for name in ("normal_", "uniform_", "bernoulli", "multinomial"):
        assert of_tensor(name).random, name
    assert torch_api.method("no_such_method") is None


@pytest.mark.parametrize(
    "name",
    [
        *("float", "cpu", "contiguous", "to", "requires_grad_", "detach_", "share_memory_", "zero_", "normal_"),
        *("detach", "clone", "double", "half", "unsqueeze", "view", "neg", "abs", "squeeze", "t", "flatten"),
    ],
)
def test_methods_that_keep_a_parameter(name: str) -> None:
    parameter = nn.Parameter(torch.ones(2, 2))
    arguments = {"to": ("cpu",), "unsqueeze": (0,), "view": (4,)}.get(name, ())
    with torch.no_grad():
        result = getattr(parameter, name)(*arguments)
    assert of_tensor(name).keeps_parameter == (result is parameter)


@pytest.mark.parametrize(
    "name", ["float", "double", "half", "long", "bool", "cpu", "contiguous", "clone", "detach", "t"]
)
def test_methods_that_may_return_the_same_tensor(name: str) -> None:
    first = getattr(torch.ones(2, 2), name)()
    assert of_tensor(name).same_object == (getattr(first, name)() is first)


def test_methods_that_exist_are_known() -> None:
    names = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    assert {name for name in names if torch_api.method(name) is None and torch_api.attribute(name) is None} == set()


def test_attributes() -> None:
    tensor = torch.ones(2, 2, requires_grad=True)
    tensor.grad = torch.ones(2, 2)
    for name in ("T", "mT", "H", "mH", "data", "grad", "real"):
        assert torch_api.attribute(name) == "tensor"
        assert isinstance(getattr(tensor, name), torch.Tensor)
    for name in ("shape", "device", "dtype", "ndim", "is_cuda", "requires_grad", "grad_fn", "layout"):
        assert torch_api.attribute(name) == "other"
        assert not isinstance(getattr(tensor, name), torch.Tensor)
    assert torch_api.attribute("no_such_attribute") is None


# modules


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(2, 2),
        nn.Conv2d(2, 2, 1),
        nn.Embedding(2, 2),
        nn.BatchNorm1d(2),
        nn.InstanceNorm1d(2),
        nn.LayerNorm(2),
        nn.RMSNorm(2),
        nn.GroupNorm(1, 2),
        nn.SyncBatchNorm(2),
        nn.LSTM(2, 2),
        nn.GRUCell(2, 2),
        nn.MultiheadAttention(2, 1),
        nn.Transformer(4, 1, 1, 1, 4),
        nn.PReLU(),
        nn.LazyLinear(2),
        nn.LazyBatchNorm2d(),
        nn.Bilinear(2, 2, 2),
        nn.AdaptiveLogSoftmaxWithLoss(4, 4, [1]),
        nn.ReLU(),
        nn.Dropout(),
        nn.Identity(),
        nn.Upsample(2),
        nn.CrossEntropyLoss(),
        nn.Sequential(),
        nn.ModuleList(),
        nn.ParameterList(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_state_of_modules(module: nn.Module) -> None:
    state = known(f"torch.nn.{type(module).__name__}").state
    assert (state.parameters, state.buffers) == state_of(module)


def test_modes() -> None:
    for name in (
        "Dropout",
        "Dropout2d",
        "AlphaDropout",
        "FeatureAlphaDropout",
        "BatchNorm1d",
        "SyncBatchNorm",
        "RReLU",
    ):
        assert known(f"torch.nn.{name}").state.mode, name
    for name in ("ReLU", "Linear", "LayerNorm", "InstanceNorm2d", "LSTM", "MultiheadAttention", "Softmax", "MSELoss"):
        assert not known(f"torch.nn.{name}").state.mode, name
    for name in ("TransformerEncoderLayer", "Transformer", "LazyBatchNorm1d", "modules.batchnorm._BatchNorm"):
        assert known(f"torch.nn.{name}").state.mode, name


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LazyBatchNorm2d"])
def test_batch_norm_without_anything_is_stateless(name: str) -> None:
    module = known(f"torch.nn.{name}")
    assert module.state == State(parameters=True, buffers=True, mode=True)
    assert module.state_for({"affine": False}) == State(parameters=False, buffers=True, mode=True)
    assert module.state_for({"track_running_stats": False}) == State(parameters=True, buffers=False, mode=False)
    assert module.state_for({"affine": False, "track_running_stats": False}) == NOTHING
    assert not module.state_for({"affine": False, "track_running_stats": False}).any
    assert module.state_for({"affine": True, "track_running_stats": ...}) == module.state


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (nn.InstanceNorm1d, {"num_features": 2, "affine": True}),
        (nn.InstanceNorm1d, {"num_features": 2, "track_running_stats": True}),
        (nn.InstanceNorm1d, {"num_features": 2, "affine": True, "track_running_stats": True}),
        (nn.LayerNorm, {"normalized_shape": 2, "elementwise_affine": False}),
        (nn.LayerNorm, {"normalized_shape": 2, "bias": False}),
        (nn.RMSNorm, {"normalized_shape": 2, "elementwise_affine": False}),
        (nn.GroupNorm, {"num_groups": 1, "num_channels": 2, "affine": False}),
        (nn.Linear, {"in_features": 2, "out_features": 2, "bias": False}),
        (nn.BatchNorm1d, {"num_features": 2, "momentum": None}),
        (nn.Embedding, {"num_embeddings": 2, "embedding_dim": 2, "_freeze": True}),
    ],
)
def test_state_for(cls: type[nn.Module], given: dict[str, Any]) -> None:
    state = known(f"torch.nn.{cls.__name__}").state_for(given)
    assert (state.parameters, state.buffers) == state_of(cls(**given))


def test_dropout_within_layers_is_a_mode() -> None:
    for name in ("LSTM", "GRU", "RNN", "MultiheadAttention"):
        assert known(f"torch.nn.{name}").state_for({"dropout": 0.1}).mode
        assert not known(f"torch.nn.{name}").state_for({"dropout": 0.0}).mode
    assert not known("torch.nn.TransformerEncoderLayer").state_for({"dropout": 0}).mode
    assert known("torch.nn.Dropout").state_for({"p": 0.0}) == NOTHING


def test_arguments() -> None:
    assert known("torch.nn.LSTM").arguments[:3] == ("input_size", "hidden_size", "num_layers")
    assert known("torch.nn.Linear").arguments == ("in_features", "out_features", "bias", "device", "dtype")
    assert known("torch.nn.Sequential").arguments == ("*args",)
    assert known("torch.nn.BatchNorm2d").keywords == ("bias",)
    assert known("torch.nn.Linear").device
    assert not known("torch.nn.ReLU").device


def test_arguments_that_are_kept() -> None:
    assert known("torch.nn.CrossEntropyLoss").tensor_arguments == ("weight",)
    assert known("torch.nn.BCEWithLogitsLoss").tensor_arguments == ("weight", "pos_weight")
    assert known("torch.nn.Embedding").tensor_arguments == ("_weight",)
    assert known("torch.nn.ParameterList").tensor_arguments == ("values",)
    assert known("torch.nn.ParameterDict").tensor_arguments == ("parameters",)
    assert known("torch.nn.TransformerEncoder").submodule_arguments == ("encoder_layer", "norm")
    assert known("torch.nn.Sequential").submodule_arguments == ("args",)
    assert known("torch.nn.ModuleDict").submodule_arguments == ("modules",)
    assert "module" in known("torch.nn.DataParallel").submodule_arguments
    assert "module" in known("torch.nn.parallel.DistributedDataParallel").submodule_arguments
    for name in ("Linear", "BatchNorm2d", "Dropout", "MSELoss"):
        assert known(f"torch.nn.{name}").tensor_arguments == ()
        assert known(f"torch.nn.{name}").submodule_arguments == ()


def test_bases() -> None:
    assert known("torch.nn.LazyLinear").bases[-2:] == ("torch.nn.Linear", "torch.nn.Module")
    assert known("torch.nn.Module").bases == ()


def test_every_module_of_torch_nn_is_known() -> None:
    classes = {name for name, value in vars(nn).items() if isinstance(value, type) and issubclass(value, nn.Module)}
    assert {name for name in classes if torch_api.module_class(f"torch.nn.{name}") is None} == set()


def test_module_methods() -> None:
    assert set(torch_api.module_methods()) <= set(dir(nn.Module))
    returning = {"to", "cuda", "cpu", "float", "train", "eval", "apply", "requires_grad_"}
    for name in returning | {"parameters", "register_buffer", "zero_grad", "modules", "state_dict"}:
        method = torch_api.module_method(name)
        assert method is not None
        assert method.returns_self == (name in returning)
        assert method.moves == (name in {"to", "cuda", "cpu"})
    assert {"training", "_parameters", "_buffers", "_modules"} <= set(torch_api.module_attributes())


# the rest


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("nn.Linear", "module"), ("nn.Parameter", "parameter"), ("nn.UninitializedParameter", "parameter")),
        *(("nn.Buffer", "buffer"), ("Tensor", "tensor"), ("device", "device"), ("Size", "size"), ("dtype", "dtype")),
        *(("optim.AdamW", "optimizer"), ("distributions.Normal", "distribution"), ("Generator", "generator")),
        *(("optim.lr_scheduler.StepLR", "scheduler"), ("autograd.Function", "autograd_function"), ("zeros", None)),
    ],
)
def test_kinds(name: str, kind: str | None) -> None:
    assert torch_api.kind(f"torch.{name}") == kind


def test_dtypes() -> None:
    names = {f"torch.{name}" for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    assert {name for name in names if torch_api.dtype_kind(name) is None} == set()
    assert torch_api.dtype_kind("torch.half") == "float"
    assert torch_api.dtype_kind("torch.long") == "int"
    assert torch_api.dtype_kind("torch.cfloat") == "complex"


@pytest.mark.parametrize("module", ["torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.distributions"])
def test_exports(module: str) -> None:
    bound: dict[str, Any] = {}
    exec(f"from {module} import *", bound)
    names = torch_api.exports(module)
    assert len(names) > 10
    assert set(names) <= set(bound)


def test_exports_hold_what_models_use() -> None:
    assert {"Linear", "Module", "Parameter", "functional", "init"} <= set(torch_api.exports("torch.nn"))
    assert {"relu", "max_pool2d", "cross_entropy"} <= set(torch_api.exports("torch.nn.functional"))
    assert {"zeros", "float32", "Tensor", "tensor"} <= set(torch_api.exports("torch"))
    assert torch_api.exports("numpy") == ()


def test_namespaces() -> None:
    for name in ("torch", "torch.nn", "torch.nn.functional", "torch.utils.data", "torch.distributed", "torch.fft"):
        assert torch_api.is_namespace(name)
    for name in ("torch.zeros", "torch.nn.Linear", "torch._C", "numpy"):
        assert not torch_api.is_namespace(name)


def test_optimizers_and_distributions() -> None:
    assert torch_api.optimizers()["torch.optim.Adam"][:2] == ("params", "lr")
    assert torch_api.distributions()["torch.distributions.Normal"] == ("loc", "scale", "validate_args")
    assert torch_api.distribution_member("rsample") == "tensor"
    assert torch_api.distribution_member("mean") == "tensor"
    assert torch_api.distribution_member("batch_shape") == "other"
