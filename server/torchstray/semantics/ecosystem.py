"""What is known of the packages around torch where they are not installed, so that their sources cannot be read: which
of their classes are modules. Of what can be read, this is not asked."""

from __future__ import annotations

from torchstray.semantics.torch_api import State

_LIGHTNING = frozenset({"lightning", "pytorch_lightning"})
_NO_STATE = State(parameters=False, buffers=False, mode=False)
_VISION_LOOKUPS = frozenset({"get_model_weights", "get_model_builder", "get_weight", "list_models"})
_METRIC_STATE = State(parameters=False, buffers=True, mode=False)


def moves_itself(name: str, attribute: str) -> bool:
    """Whether the framework of the class with this full name moves an attribute of its modules by itself."""
    return name.partition(".")[0] in _LIGHTNING and attribute == "example_input_array"


def module_state(name: str) -> State | None:
    """The state that an instance of the class with this full name has of itself; None where it is not known to be a
    module.

    Lightning's modules and Hugging Face's models hold only what their subclasses add; a torchmetrics metric keeps
    tensors that move with the module it is registered in.
    """
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    if package in _LIGHTNING and last == "LightningModule":
        return _NO_STATE
    if package == "transformers" and last.endswith("PreTrainedModel"):
        return _NO_STATE
    if name in {"torch.jit.ScriptModule", "torch_geometric.nn.MessagePassing"}:
        return _NO_STATE
    if package == "torchmetrics" and last[:1].isupper() and "functional" not in rest:
        return _METRIC_STATE
    return None


def makes_module(name: str) -> bool:
    """Whether the function with this full name is known to build a module on the CPU: torchvision's constructors of
    models are."""
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    return (
        package == "torchvision" and rest.startswith("models.") and last[:1].islower() and last not in _VISION_LOOKUPS
    )
