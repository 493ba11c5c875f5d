"""What stays behind, by which road it might still be registered, and how surely that fails."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked, findings, module, script

ADDS = "return x + self.t"
CHAINS = """
for layer in self.layers:
    x = layer(x)
return x
"""

ROADS = {
    "register_buffer": module("t = torch.ones(size)\nself.register_buffer('t', t)", ADDS),
    "register_buffer by keywords": module(
        "self.register_buffer(name='t', tensor=torch.ones(size), persistent=False)", ADDS
    ),
    "register_buffer, then assigned": module("self.register_buffer('t', None)\nself.t = torch.ones(size)", ADDS),
    "register_buffer of another name": module(
        "self.register_buffer('u', torch.ones(size))\nself.t = torch.ones(size)  # error: unregistered-tensor", ADDS
    ),
    "register_parameter": module("self.register_parameter('t', nn.Parameter(torch.ones(size)))", ADDS),
    "Buffer": module("self.t = nn.Buffer(torch.ones(size))", ADDS),
    "Buffer, then assigned": module("self.t = nn.Buffer(torch.ones(size))\nself.t = torch.zeros(size)", ADDS),
    "Parameter": module("self.t = nn.Parameter(torch.ones(size))", ADDS),
    "frozen parameter": module("self.t = nn.Parameter(torch.ones(size), requires_grad=False)", ADDS),
    "add_module": module(
        "self.layers = [nn.Linear(4, 4) for _ in range(count)]\n"
        "for i, layer in enumerate(self.layers):\n    self.add_module('layer' + str(i), layer)",
        CHAINS,
    ),
    "register_module": module(
        "self.layers = [nn.Linear(4, 4)]\nfor i, layer in enumerate(self.layers):\n"
        "    self.register_module(f'layer{i}', layer)",
        CHAINS,
    ),
    "add_module of another list": module(
        "others = [nn.Linear(4, 4)]\nself.layers = [nn.Linear(4, 4)]  # error: unregistered-module\n"
        "for i, layer in enumerate(others):\n    self.add_module(f'layer{i}', layer)",
        CHAINS,
    ),
    "setattr": module(
        "self.layers = [nn.Linear(4, 4)]\nfor i, layer in enumerate(self.layers):\n"
        "    setattr(self, f'layer{i}', layer)",
        CHAINS,
    ),
    "setattr, then getattr": module(
        "for i in range(count):\n    setattr(self, f'layer{i}', nn.Linear(4, 4))",
        "for i in range(3):\n    x = getattr(self, f'layer{i}')(x)\nreturn x",
    ),
    "ModuleList of the list": module(
        "self.layers = [nn.Linear(4, 4)]\nself.registered = nn.ModuleList(self.layers)", CHAINS
    ),
    "ModuleList of the list, filled before": module(
        "self.layers = []\nself.layers.append(nn.Linear(4, 4))\nself.registered = nn.ModuleList(self.layers)", CHAINS
    ),
    "ModuleList of another list": module(
        "self.layers = [nn.Linear(4, 4)]  # error: unregistered-module\n"
        "self.registered = nn.ModuleList([nn.Linear(4, 4)])",
        CHAINS,
    ),
    "Sequential of the list": module(
        "self.layers = [nn.Linear(4, 4)]\nself.body = nn.Sequential(*self.layers)", CHAINS
    ),
    "ModuleDict of the dict": module(
        "self.heads = {'a': nn.Linear(4, 4)}\nself.registered = nn.ModuleDict(self.heads)", "return self.heads['a'](x)"
    ),
    "ParameterList of the list": module(
        "self.weights = [nn.Parameter(torch.ones(size))]\nself.registered = nn.ParameterList(self.weights)",
        "return x * self.weights[0]",
    ),
    "list of registered layers": module("self.fc = nn.Linear(4, 4)\nself.layers = [self.fc, nn.ReLU()]", CHAINS),
    "list of a registered and a free layer": module(
        "self.fc = nn.Linear(4, 4)\nself.layers = [self.fc, nn.Linear(4, 4)]  # error: unregistered-module", CHAINS
    ),
    "layer kept after the list": module("fc = nn.Linear(4, 4)\nself.layers = [fc]\nself.fc = fc", CHAINS),
    "unknown function may register": module("self.layers = [nn.Linear(4, 4)]\nregister_all(self, self.layers)", CHAINS),
    "own function registers": module(
        "self.layers = [nn.Linear(4, 4)]\nregister_all(self, self.layers)",
        CHAINS,
        before="def register_all(module, layers):\n    for i, layer in enumerate(layers):\n"
        "        module.add_module(str(i), layer)\n",
    ),
    "own function does not register": module(
        "self.layers = [nn.Linear(4, 4)]  # error: unregistered-module\ncount_all(self, self.layers)",
        CHAINS,
        before="def count_all(module, layers):\n    module.count = len(layers)\n",
    ),
    "second name of a layer": module("self.fc = nn.Linear(4, 4)\nself.head = self.fc", "return self.head(x)"),
    "second name of a parameter": module("self.w = nn.Parameter(torch.ones(size))\nself.t = self.w", ADDS),
    "second name of a buffer": module(
        "self.register_buffer('b', torch.ones(size))\nself.t = self.b  # expect: unregistered-tensor", ADDS
    ),
    "weight of a layer": module("self.fc = nn.Linear(4, 4)\nself.t = self.fc.weight", ADDS),
    "copy of a parameter": module(
        "self.w = nn.Parameter(torch.ones(size))\nself.t = self.w.detach().clone()  # error: unregistered-tensor",
        "return (x * self.w - self.t).sum()",
    ),
    "hidden by object.__setattr__": module("object.__setattr__(self, 't', torch.ones(size))", ADDS),
    "hidden in __dict__": module("self.__dict__['t'] = torch.ones(size)", ADDS),
    "layer hidden in __dict__": module("self.__dict__['fc'] = nn.Linear(4, 4)", "return self.fc(x)"),
    "tensor on a layer": module(
        "self.fc = nn.Linear(4, 4)\nself.fc.gain = torch.ones(size)  # expect: unregistered-tensor",
        "return self.fc(x) * self.fc.gain",
    ),
    "layer on a layer": module("self.fc = nn.Linear(4, 4)\nself.fc.inner = nn.Linear(4, 4)", "return self.fc.inner(x)"),
    "list in a registered object": script("""
        class Holder(nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.layers = nn.ModuleList(layers)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                layers = [nn.Linear(4, 4)]
                self.layers = layers
                self.holder = Holder(layers)
            def forward(self, x):
                return self.layers[0](x)
    """),
}

NAMES = {
    "f-string": module(
        "for n in 'xy':\n    setattr(self, f'kernel_{n}', torch.ones(size))  # expect: unregistered-tensor",
        "return x * self.kernel_x + self.kernel_y",
    ),
    "percent": module(
        "for i in range(3):\n    setattr(self, 'kernel_%d' % i, torch.ones(size))  # expect: unregistered-tensor",
        "return x * self.kernel_0",
    ),
    "format": module(
        "for i in range(3):\n    setattr(self, 'kernel_{}'.format(i), torch.ones(size))  # expect: unregistered-tensor",
        "return x * self.kernel_0",
    ),
    "sum": module(
        "for i in range(3):\n    setattr(self, 'kernel_' + str(i), torch.ones(size))  # expect: unregistered-tensor",
        "return x * self.kernel_0",
    ),
    "getattr": module(
        "for i in range(3):\n    setattr(self, f'kernel_{i}', torch.ones(size))  # error: unregistered-tensor",
        "for i in range(3):\n    x = x * getattr(self, f'kernel_{i}')\nreturn x",
    ),
    "moved": module(
        "for i in range(3):\n    setattr(self, f'kernel_{i}', torch.ones(size))  # hint: unregistered-tensor",
        "for i in range(3):\n    x = x * getattr(self, f'kernel_{i}').to(x.device)\nreturn x",
    ),
    "literal": module("setattr(self, 't', torch.ones(size))  # error: unregistered-tensor", ADDS),
    "registered by f-string": module(
        "for n in 'xy':\n    self.register_buffer(f'kernel_{n}', torch.ones(size))",
        "return x * self.kernel_x + self.kernel_y",
    ),
    "registered by percent": module(
        "for i in range(3):\n    self.register_buffer('kernel_%d' % i, torch.ones(size))",
        "return x * getattr(self, 'kernel_%d' % 2)",
    ),
    "registered by format": module(
        "for i in range(3):\n    self.register_buffer('kernel_{}'.format(i), torch.ones(size))",
        "return x * self.kernel_1",
    ),
    "list registered by f-string": module(
        "self.kernels = [torch.ones(size) for _ in range(3)]  # expect: unregistered-tensor\n"
        "for i, kernel in enumerate(self.kernels):\n    self.register_buffer(f'kernel_{i}', kernel)",
        "return x * self.kernels[0]",
    ),
    "layers by f-string": module(
        "for i in range(3):\n    setattr(self, f'layer_{i}', nn.Linear(4, 4))", "return self.layer_0(x)"
    ),
    "numbers by f-string": module(
        "for i in range(3):\n    setattr(self, f'size_{i}', size * i)", "return x * self.size_0"
    ),
}

GRADIENTS = {
    "requires_grad": module("self.t = torch.ones(size, requires_grad=True)  # error: unregistered-parameter", ADDS),
    "no requires_grad": module("self.t = torch.ones(size, requires_grad=False)  # error: unregistered-tensor", ADDS),
    "requires_grad_": module("self.t = torch.ones(size).requires_grad_()  # error: unregistered-parameter", ADDS),
    "requires_grad_(False)": module(
        "self.t = torch.ones(size).requires_grad_(False)  # error: unregistered-tensor", ADDS
    ),
    "set later": module(
        "self.t = torch.ones(size)  # error: unregistered-parameter\nself.t.requires_grad = True", ADDS
    ),
    "set later in place": module(
        "self.t = torch.ones(size)  # error: unregistered-parameter\nself.t.requires_grad_()", ADDS
    ),
    "set on a local": module(
        "t = torch.ones(size)\nt.requires_grad = True\nself.t = t  # error: unregistered-parameter", ADDS
    ),
    "set on a local in place": module(
        "t = torch.ones(size)\nt.requires_grad_(True)\nself.t = t  # error: unregistered-parameter", ADDS
    ),
    "unset later": module(
        "self.t = torch.ones(size, requires_grad=True)  # error: unregistered-tensor\nself.t.requires_grad = False",
        ADDS,
    ),
    "Variable": module(
        "self.t = Variable(torch.ones(size), requires_grad=True)  # error: unregistered-parameter",
        ADDS,
        before="from torch.autograd import Variable\n",
    ),
    "wrapped in a parameter": module("t = torch.ones(size, requires_grad=True)\nself.t = nn.Parameter(t)", ADDS),
    "list": module(
        "self.t = [torch.ones(size, requires_grad=True)]  # error: unregistered-parameter", "return x + self.t[0]"
    ),
    "detached": module("self.t = torch.ones(size, requires_grad=True).detach()  # error: unregistered-tensor", ADDS),
    "computed parameter": module("self.t = nn.Parameter(torch.ones(size)) * 0.1  # error: computed-parameter", ADDS),
    "moved parameter": module("self.t = nn.Parameter(torch.ones(size)).cuda()  # error: computed-parameter", ADDS),
    "shaped parameter": module(
        "self.t = nn.Parameter(torch.ones(size)).unsqueeze(0)  # error: computed-parameter", ADDS
    ),
    "data of a parameter": module("self.t = nn.Parameter(torch.ones(size) * 0.1)", ADDS),
    "initialised parameter": module("self.t = nn.init.normal_(nn.Parameter(torch.ones(size)))", ADDS),
    "parameter frozen in place": module("self.t = nn.Parameter(torch.ones(size)).requires_grad_(False)", ADDS),
    "computed from a registered parameter": module(
        "self.w = nn.Parameter(torch.ones(size))\nself.t = self.w * 2  # expect: unregistered-tensor", ADDS
    ),
}

EVIDENCE = {
    "meets the input": module("self.t = torch.ones(size)  # error: unregistered-tensor", "return x * self.t"),
    "meets the input from the left": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "return self.t - x"
    ),
    "meets what a layer gives": module(
        "self.fc = nn.Linear(4, 4)\nself.t = torch.ones(size)  # error: unregistered-tensor",
        "return self.fc(x) @ self.t",
    ),
    "meets a parameter": module(
        "self.w = nn.Parameter(torch.ones(size))\nself.t = torch.ones(size)  # error: unregistered-tensor",
        "return self.w * self.t",
    ),
    "goes into a layer": module(
        "self.fc = nn.Linear(4, 4)\nself.t = torch.ones(size)  # error: unregistered-tensor",
        "return x * self.fc(self.t)",
    ),
    "goes into a function of torch": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "return F.linear(x, self.t)"
    ),
    "is joined": module("self.t = torch.ones(size)  # error: unregistered-tensor", "return torch.cat([x, self.t])"),
    "meets the input in a helper": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor",
        "return self.add(x)",
        methods="def add(self, v):\n    return v + self.t\n",
    ),
    "meets the input in a function": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor",
        "return add(x, self.t)",
        before="def add(a, b):\n    return a + b\n",
    ),
    "meets the input in a step": module(
        "self.t = torch.ones(size)  # expect: unregistered-tensor",
        methods="def training_step(self, batch, index):\n    return (batch * self.t).sum()\n",
    ),
    "shaped first": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "t = self.t.view(1, -1).expand(3, -1)\nreturn x * t"
    ),
    "in place": module("self.t = torch.ones(size)  # error: unregistered-tensor", "x += self.t\nreturn x"),
    "as a mask": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "return x.masked_fill(self.t == 0, 0.0)"
    ),
    "as a condition": module(
        "self.t = torch.ones(size) > 0  # error: unregistered-tensor", "return torch.where(self.t, x, x * 2)"
    ),
    "is handed to something unknown": module(
        "self.t = torch.ones(size)  # warning: unregistered-tensor", "return warp(x, self.t)"
    ),
    "is returned": module("self.t = torch.ones(size)  # expect: unregistered-tensor", "return x, self.t"),
    "used by another method only": module(
        "self.t = torch.ones(size)  # expect: unregistered-tensor",
        methods="def score(self, y):\n    return (y * self.t).sum()\n",
    ),
    "moved": module("self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.to(x.device)"),
    "moved like another": module("self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.to(x)"),
    "moved by type_as": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.type_as(x)"
    ),
    "moved by keyword": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.to(device=x.device)"
    ),
    "moved at the end of a chain": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor",
        "return x * self.t.unsqueeze(0).expand(3, -1).to(x.device)",
    ),
    "moved into a local": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "t = self.t.to(x.device)\nreturn x * t + t"
    ),
    "moved by a helper": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor",
        "return x * self.table(x)",
        methods="def table(self, v):\n    return self.t.to(v.device)\n",
    ),
    "moved by forward first": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "self.t = self.t.to(x.device)\nreturn x * self.t"
    ),
    "moved by forward before a helper": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor",
        "self.t = self.t.to(x.device)\nreturn self.add(x)",
        methods="def add(self, v):\n    return v + self.t\n",
    ),
    "moved in one of two uses": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "y = x * self.t.to(x.device)\nreturn y + self.t"
    ),
    "cast only": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor", "return x * self.t.to(torch.float64)"
    ),
    "cast by a method": module("self.t = torch.ones(size)  # error: unregistered-tensor", "return x * self.t.double()"),
    "never used": module("self.t = torch.ones(size)  # hint: unregistered-tensor"),
    "only its shape": module("self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.shape[0]"),
    "only its numbers": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "return x * self.t.sum().item()"
    ),
    "only its truth": module(
        "self.t = torch.ones(1)  # hint: unregistered-tensor", "if self.t:\n    x = x * 2\nreturn x"
    ),
    "copied into the input": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor", "x[:, 0] = self.t\nreturn x"
    ),
    "made on a given device": script("""
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.t = torch.ones(4, device=device)  # hint: unregistered-tensor
            def forward(self, x):
                return x + self.t
    """),
    "made on the CPU by name": module("self.t = torch.ones(size, device='cpu')  # error: unregistered-tensor", ADDS),
    "forward is a stub": module(
        "self.t = torch.ones(size)  # warning: unregistered-tensor", "raise NotImplementedError"
    ),
}

ZERO_DIM = {
    "scalar tensor": module("self.t = torch.tensor(0.5)  # hint: unregistered-tensor", "return x * self.t"),
    "one element": module("self.t = torch.tensor([0.5])  # error: unregistered-tensor", "return x * self.t"),
    "through a function": module(
        "self.t = torch.sqrt(torch.tensor(4.0))  # hint: unregistered-tensor", "return x / self.t"
    ),
    "through a method": module(
        "self.t = torch.tensor(4.0).log().exp()  # hint: unregistered-tensor", "return x / self.t"
    ),
    "sum of all": module("self.t = torch.ones(size).sum()  # hint: unregistered-tensor", "return x * self.t"),
    "sum along one": module("self.t = torch.ones(size, 2).sum(0)  # expect: unregistered-tensor", "return x * self.t"),
    "reduced by a function": module(
        "self.t = torch.prod(torch.ones(size))  # hint: unregistered-tensor", "return x * self.t"
    ),
    "empty size": module("self.t = torch.zeros(())  # hint: unregistered-tensor", "return x + self.t"),
    "full of empty size": module("self.t = torch.full((), 2.0)  # hint: unregistered-tensor", "return x + self.t"),
    "computed from a constant of math": module(
        "self.t = torch.tensor(2 * math.pi).log()  # hint: unregistered-tensor",
        "return x + self.t",
        before="import math\n",
    ),
    "unsqueezed": module("self.t = torch.tensor(0.5).unsqueeze(0)  # error: unregistered-tensor", "return x * self.t"),
    "viewed": module("self.t = torch.tensor(0.5).view(1, 1)  # error: unregistered-tensor", "return x * self.t"),
    "stacked": module(
        "self.t = torch.stack([torch.tensor(0.5)] * 3)  # error: unregistered-tensor", "return x * self.t"
    ),
    "joined with the input": module(
        "self.t = torch.tensor(0.5)  # error: unregistered-tensor", "return torch.stack([x.sum(), self.t])"
    ),
    "compared": module("self.t = torch.tensor(0.5)  # hint: unregistered-tensor", "return x * (x > self.t)"),
    "of a distribution": module(
        "self.p = torch.distributions.Normal(0.0, 1.0)  # hint: unregistered-tensor", "return self.p.log_prob(x)"
    ),
    "sampled from a distribution": module(
        "self.p = torch.distributions.Normal(0.0, 1.0)  # error: unregistered-tensor", "return x + self.p.sample((3,))"
    ),
}

INDICES = {
    "list of indices": module("self.i = torch.tensor([0, 2])  # hint: unregistered-tensor", "return x[:, self.i]"),
    "alone": module("self.i = torch.arange(size)  # hint: unregistered-tensor", "return x[self.i]"),
    "triangle": module(
        "self.i = torch.triu_indices(size, size)  # hint: unregistered-tensor", "return x[:, self.i[0], self.i[1]]"
    ),
    "mask": module("self.i = torch.ones(size) > 0  # hint: unregistered-tensor", "return x[self.i]"),
    "by index_select": module(
        "self.i = torch.arange(size)  # error: unregistered-tensor", "return x.index_select(1, self.i)"
    ),
    "by gather": module(
        "self.i = torch.arange(size)  # error: unregistered-tensor", "return torch.gather(x, 1, self.i)"
    ),
    "indexed by an input": module("self.t = torch.ones(size)  # error: unregistered-tensor", "return self.t[x.long()]"),
    "indexed by a number": module("self.t = torch.ones(size)  # error: unregistered-tensor", "return x + self.t[0]"),
}


@pytest.mark.parametrize("code", ROADS.values(), ids=ROADS)
def test_roads_to_registration(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", NAMES.values(), ids=NAMES)
def test_names_made_at_run_time(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", GRADIENTS.values(), ids=GRADIENTS)
def test_what_is_meant_to_train(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", EVIDENCE.values(), ids=EVIDENCE)
def test_severity_follows_from_the_uses(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", ZERO_DIM.values(), ids=ZERO_DIM)
def test_tensor_without_dimensions(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", INDICES.values(), ids=INDICES)
def test_index_stays_where_it_is(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", [*NAMES.values(), *ROADS.values()], ids=[*NAMES, *ROADS])
def test_message_shows_no_placeholder(code: str) -> None:
    assert not [finding.message for finding in findings(code) if "{}" in finding.message]
