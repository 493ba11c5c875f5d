"""What counts as registered, and what no longer does: programs on which torch once proved the analysis wrong."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked, module, script

PROGRAMS = {
    "second name of an nn.Buffer": module("self.b = nn.Buffer(torch.ones(size))\nself.t = self.b", "return x + self.t"),
    "second name of an nn.Buffer in a list": module(
        "self.b = nn.Buffer(torch.ones(size))\nself.t = [self.b]  # expect: unregistered-tensor", "return x + self.t[0]"
    ),
    "tensor assigned to the second name of an nn.Buffer": module(
        "self.b = nn.Buffer(torch.ones(size))\nself.t = self.b\nself.t = torch.zeros(size)", "return x + self.t"
    ),
    "method of a parameter that gives the parameter": module(
        "self.w = nn.Parameter(torch.ones(3))\nself.t = self.w.float()", "return x + self.t"
    ),
    "parameter in the place of a buffer": module(
        "self.register_buffer('w', torch.ones(3))\nself.w = nn.Parameter(self.w)\nself.t = [self.w]",
        "return x + self.t[0]",
    ),
    "layer that goes into a ModuleList by +=": module(
        "layer = nn.Linear(4, 4)\nself.layers = nn.ModuleList()\nself.layers += [layer]\nself.order = [layer]",
        "return self.order[0](x)",
    ),
    "slice assignment fills a list": module(
        "self.layers = []\nself.layers[:0] = [nn.Linear(4, 4)]\n"
        "for i, layer in enumerate(self.layers):\n    setattr(self, f'layer{i}', layer)",
        "return self.layers[0](x)",
    ),
    "list made by a method of __init__ and deleted again": module(
        "self.build()\ndel self.layers", methods="def build(self):\n    self.layers = [nn.Linear(4, 4)]\n"
    ),
    "list filled by a method of __init__ and registered then": module(
        "self.layers = [nn.ReLU()]\nself.build()\nself.body = nn.Sequential(*self.layers)",
        "return self.body(x)",
        methods="def build(self):\n    self.layers.append(nn.Linear(4, 4))\n",
    ),
    "layer that is deleted again": script("""
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                del self.layer
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = [Part(), Part()]
            def forward(self, x):
                return x
    """),
    "emptied by a second nn.Module.__init__, and filled again": script("""
        class One(nn.Module):
            def __init__(self, layer):
                nn.Module.__init__(self)
                self.layer = nn.Linear(4, 4)
        class Other(nn.Module):
            def __init__(self, layer):
                nn.Module.__init__(self)
                self.layer = nn.Linear(4, 4)
        class Both(One, Other):
            def __init__(self, layer):
                One.__init__(self, layer)
                Other.__init__(self, layer)
            def forward(self, x):
                return self.layer(x)
    """),
    "tensor with a gradient, computed again": module(
        "self.t = torch.zeros(3, requires_grad=True)  # error: unregistered-parameter\nself.t = self.t + 1",
        "return x + self.t",
    ),
    "tensor made like one with a gradient": module(
        "self.t = torch.zeros(3, requires_grad=True)  # error: unregistered-parameter\n"
        "self.u = torch.zeros_like(self.t)  # error: unregistered-tensor",
        "return x * self.t + self.u",
    ),
    "name of a tensor with a gradient that is dropped": module(
        "self.t = torch.zeros(3, requires_grad=True)\nself.u = self.t  # error: unregistered-parameter\nself.t = None",
        "return x + self.u",
    ),
}


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in PROGRAMS.items()])
def test_registration(code: str) -> None:
    assert_marked(code)
