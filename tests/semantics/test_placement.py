"""What a script moves, and what it leaves behind."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked

LEFT_BEHIND = {
    "toplevel-script": """\
import torch
import torch.nn as nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)  # expect: model-not-moved
        loss = criterion(outputs, labels)
        loss.backward()
""",
    "argparse-main": """\
import argparse
import torch
from torch import nn
def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    return p.parse_args()
def main():
    args = parse()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    device = torch.device(args.device)
    for batch in loader():
        x = batch["x"].to(device, non_blocking=True)
        y = model(x)  # expect: model-not-moved
if __name__ == "__main__":
    main()
""",
    "cuda-unconditional": """\
import torch, torchvision
model = torchvision.models.resnet18(pretrained=True)
model.eval()
img = torch.rand(1, 3, 224, 224).cuda()
with torch.no_grad():
    out = model(img)  # expect: model-not-moved
""",
    "multi-gpu branch": """\
import torch
from torch import nn
from torchvision import models
def train(args, loader):
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    net = models.vgg16()
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)
        net.to(device)
    for x, y in loader:
        x = x.to(device)
        y = y.to(device)
        loss = nn.functional.cross_entropy(net(x), y)  # expect: model-not-moved
        loss.backward()
""",
    "moved after use": """\
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(3, 2)
x = torch.randn(4, 3, device=device)
print(model(x))  # expect: model-not-moved
model.to(device)
print(model(x))
""",
    "ema copy": """\
import copy
import torch
from torch import nn
def train(device, loader):
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    ema = copy.deepcopy(model)
    model.to(device)
    for x in loader:
        x = x.to(device)
        a = model(x)
        with torch.no_grad():
            b = ema(x)  # expect: model-not-moved
        (a - b).pow(2).mean().backward()
""",
    "loss with weight cuda": """\
import torch
from torch import nn
model = nn.Linear(3, 2).cuda()
w = torch.tensor([1.0, 3.0])
crit = nn.CrossEntropyLoss(weight=w)
for x, y in loader:
    out = model(x.cuda())
    loss = crit(out, y.cuda())  # expect: model-not-moved
""",
    "bce pos_weight inline": """\
import torch
from torch import nn
def step(model, x, y, device):
    x, y = x.to(device), y.to(device)
    out = model(x)
    return nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 1.0]))(out, y)  # expect: model-not-moved
""",
    "trainer class": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
class Trainer:
    def __init__(self, config):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Net()
        self.optimizer = torch.optim.Adam(self.model.parameters())
    def train(self, loader):
        self.model.train()
        for x, y in loader:
            x = x.to(self.device)
            y = y.to(self.device)
            out = self.model(x)  # expect: model-not-moved
            loss = nn.functional.mse_loss(out, y)
            self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
""",
    "passed to function": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
def train(model, device, loader, optimizer):
    model.train()
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        output = model(data)  # expect: model-not-moved
        nn.functional.nll_loss(output, target).backward()
        optimizer.step()
def main():
    use_cuda = torch.cuda.is_available()
    dev = torch.device("cuda" if use_cuda else "cpu")
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        train(net, dev, loader, optimizer)
if __name__ == "__main__":
    main()
""",
    "layer replaced after move": """\
import torch
from torch import nn
import torchvision
device = torch.device("cuda")
model = torchvision.models.resnet18()
model = model.to(device)
model.fc = nn.Linear(512, 10)  # expect: model-not-moved
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x.to(device))
""",
    "classifier item replaced after move": """\
import torch
from torch import nn
from torchvision.models import vgg16
def main(loader, device):
    model = vgg16().to(device)
    model.classifier[6] = nn.Linear(4096, 3)  # expect: model-not-moved
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
""",
    "gan both": """\
import torch
from torch import nn
class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
    def forward(self, z):
        return self.l(z)
class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 1)
    def forward(self, z):
        return self.l(z)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
netG = G().to(device)
netD = D()
netD.apply(weights_init)
optD = torch.optim.Adam(netD.parameters())
for i, data in enumerate(loader, 0):
    real = data[0].to(device)
    b = real.size(0)
    label = torch.full((b,), 1.0, dtype=torch.float, device=device)
    output = netD(real).view(-1)  # expect: model-not-moved
    noise = torch.randn(b, 3, 1, 1, device=device)
    fake = netG(noise)
    out2 = netD(fake.detach())
""",
    "weights_init defined": """\
import torch
from torch import nn
def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
netD = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
netD.apply(weights_init)
for i, data in enumerate(loader, 0):
    real = data[0].to(device)
    output = netD(real).view(-1)  # expect: model-not-moved
""",
    "dict batch": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Embedding(4, 2)
    def forward(self, ids, mask):
        return self.fc(ids) * mask
model = Net()
device = torch.device("cuda:0")
for batch in loader:
    batch = {k: v.to(device) for k, v in batch.items()}
    out = model(**batch)  # expect: model-not-moved
""",
    "dict batch 2": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Embedding(4, 2)
    def forward(self, ids, mask):
        return self.fc(ids) * mask
def run(loader, device):
    model = Net()
    for batch in loader:
        for k in batch:
            batch[k] = batch[k].to(device)
        out = model(batch["ids"], batch["mask"])  # expect: model-not-moved
""",
    "notebook": """\
import torch
from torch import nn
if torch.cuda.is_available():
    device = torch.device("cuda")
else:
    device = torch.device("cpu")
lstm = nn.LSTM(3, 4)
head = nn.Linear(4, 1).to(device)
xb, yb = next(iter(dl))
xb = xb.to(device)
o, _ = lstm(xb)  # expect: model-not-moved
p = head(o)
""",
    "optimizer script": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
model[2] = nn.Linear(4, 3)  # expect: optimizer-misses-parameters
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "optimizer add_module torchvision": """\
import torch, torchvision
from torch import nn, optim
def main(loader):
    net = torchvision.models.resnet50(weights="DEFAULT")
    for p in net.parameters():
        p.requires_grad = False
    optimizer = optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=1e-3)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    net.fc = nn.Linear(2048, 3)  # expect: optimizer-misses-parameters
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
""",
    "optimizer in module init": """\
import torch
from torch import nn
class Agent(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(n, 8)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        self.head = nn.Linear(8, 2)  # expect: optimizer-misses-parameters
    def forward(self, x):
        return self.head(self.body(x))
""",
    "optimizer in agent class": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
class Agent:
    def __init__(self):
        self.net = Net()
        self.opt = torch.optim.Adam(self.net.parameters())
        self.net.fc = nn.Linear(4, 3)  # expect: optimizer-misses-parameters
    def learn(self, x):
        loss = self.net(x).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
""",
    "self.to then param": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.to(device)
        self.scale = nn.Parameter(torch.ones(1))  # expect: model-not-moved
        self.register_buffer("mean", torch.zeros(3))  # expect: model-not-moved
    def forward(self, x):
        return self.fc(x) * self.scale
""",
    "teacher unmoved via list device": """\
import torch
from torch import nn
def distill(loader):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student, teacher = nn.Linear(3, 3), nn.Linear(3, 3)
    student = student.to(device)
    teacher.eval()
    for inputs, _ in loader:
        inputs = inputs.to(device)
        with torch.no_grad():
            t = teacher(inputs)  # expect: model-not-moved
        s = student(inputs)
""",
    "method encode": """\
import torch
from torch import nn
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(3, 2)
        self.dec = nn.Linear(2, 3)
    def encode(self, x):
        return self.enc(x)
    def forward(self, x):
        return self.dec(self.encode(x))
vae = VAE()
x = torch.rand(2, 3).to("cuda")
z = vae.encode(x)  # expect: model-not-moved
""",
    "branch arg": """\
import torch
from torch import nn
def main(args, loader):
    model = nn.Linear(3, 2)
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
        model.cuda()
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.cross_entropy(model(x), y)  # expect: model-not-moved
""",
    "model in else branch": """\
import torch
from torch import nn
import torchvision
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if args.pretrained:
    model = torchvision.models.resnet18(pretrained=True).to(device)
else:
    model = torchvision.models.resnet18()
for x, y in loader:
    x = x.to(device)
    out = model(x)  # expect: model-not-moved
""",
    "rnn hidden": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 2)
    def forward(self, x, h):
        return self.rnn(x, h)
    def init_hidden(self, b):
        return torch.zeros(1, b, 2)
net = Net()
h = net.init_hidden(3).to(device)
for x in data:
    out, h = net(x.to(device), h)  # expect: model-not-moved
""",
    "old types": """\
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
cuda = True if torch.cuda.is_available() else False
D = nn.Linear(3, 1)
G = nn.Linear(3, 3)
if cuda:
    G.cuda()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
for i, (imgs, _) in enumerate(dataloader):
    real = Variable(imgs.type(Tensor))
    z = Variable(Tensor(np.random.normal(0, 1, (3, 3))))
    fake = G(z)
    out = D(fake)  # expect: model-not-moved
    D(real)
""",
    "trainer gets model from caller": """\
import torch
from torch import nn
class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device
    def run(self, loader):
        for x in loader:
            y = self.model(x.to(self.device))  # expect: model-not-moved
trainer = Trainer(nn.Linear(3, 2), "cuda")
trainer.run(loader)
""",
    "run method called in init": """\
import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.device = torch.device("cuda")
        self.build()
    def build(self):
        self.actor = nn.Linear(3, 2).to(self.device)
        self.critic = nn.Linear(3, 1)
        self.opt = torch.optim.Adam(self.critic.parameters())
    def update(self, states):
        states = torch.as_tensor(states, dtype=torch.float32).to(self.device)
        v = self.critic(states)  # expect: model-not-moved
        p = self.actor(states)
""",
    "torch.tensor with device kw": """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1))
def select_action(state):
    state = torch.from_numpy(state).float().unsqueeze(0).to(device)
    probs = policy(state)  # expect: model-not-moved
    return probs.argmax()
def main():
    for i in range(3):
        select_action(env.reset())
if __name__ == "__main__":
    main()
""",
    "list of models": """\
import torch
from torch import nn
def ensemble(x, device):
    models = [nn.Linear(3, 2) for _ in range(5)]
    x = x.to(device)
    return [m(x) for m in models]  # expect: model-not-moved
""",
    "module list of models in dict, one moved": """\
import torch
from torch import nn
x = torch.rand(2, 3).cuda()
nets = {"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)}
nets["a"].cuda()
nets["b"](nets["a"](x))  # expect: model-not-moved
""",
    "with autocast and no_grad": """\
import torch
from torch import nn
model = nn.TransformerEncoderLayer(8, 2)
model.eval()
model.load_state_dict(torch.load("w.pt", map_location="cpu"))
src = torch.rand(3, 1, 8, device="cuda:0")
with torch.inference_mode(), torch.autocast("cuda"):
    out = model(src)  # expect: model-not-moved
""",
    "feature extractor of a perceptual loss": """\
import torch
from torch import nn
import torchvision.models as models
vgg = models.vgg19(weights=None).features[:21].eval()
for p in vgg.parameters():
    p.requires_grad_(False)
img = torch.rand(1, 3, 64, 64).cuda()
f = vgg(img)  # expect: model-not-moved
""",
    "half moved model dict": """\
import torch
from torch import nn
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
    def forward(self, x):
        return self.l(x)
class Model(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(3, 1)
    def forward(self, x):
        return self.head(self.encoder(x))
encoder = Encoder().to("cuda")
model = Model(encoder)
model(torch.rand(2, 3).to("cuda"))  # expect: model-not-moved
""",
    "model on the wrong variable": """\
import torch
from torch import nn
def get_model(device):
    net = nn.Linear(3, 2)
    return net
def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = get_model(device)
    for epoch in range(2):
        for i, batch in enumerate(loader):
            inputs = batch["image"].float().to(device)
            labels = batch["label"].to(device)
            with torch.set_grad_enabled(True):
                out = net(inputs)  # expect: model-not-moved
main()
""",
    "optimizer via groups and setattr": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
    def forward(self, x):
        return self.b(self.a(x))
net = Net()
params = list(net.parameters())
opt = torch.optim.RMSprop(params, lr=0.1)
setattr(net, "b", nn.Linear(3, 9))  # expect: optimizer-misses-parameters
opt.zero_grad()
net(x).sum().backward()
opt.step()
""",
    "optimizer nested part": """\
import torch, torchvision
from torch import nn
net = torchvision.models.resnet18()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net.layer4[1].conv2 = nn.Conv2d(3, 3, 3)  # expect: optimizer-misses-parameters
for x in loader:
    net(x).sum().backward()
    opt.step()
""",
    "unfreeze with param": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
    def forward(self, x):
        return self.a(x)
def fit(net, loader):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net.scale = nn.Parameter(torch.ones(3))  # expect: optimizer-misses-parameters
    for x in loader:
        net(x).sum().backward()
        opt.step()
""",
    "layer grows in the loop": """\
import torch
from torch import nn
def grow(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, x in enumerate(loader):
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
        if i == 100:
            model.extra = nn.Linear(3, 3)  # expect: optimizer-misses-parameters
""",
    "subclass adds": """\
import torch
from torch import nn
class Base(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.to(device)
    def forward(self, x):
        return self.a(x)
class Sub(Base):
    def __init__(self, device):
        super().__init__(device)
        self.b = nn.Linear(3, 3)  # expect: model-not-moved
    def forward(self, x):
        return self.b(self.a(x))
""",
    "configure in init": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.configure()
        self.b = nn.Linear(3, 3)  # expect: optimizer-misses-parameters
    def configure(self):
        self.opt = torch.optim.SGD(self.parameters(), lr=0.1)
    def forward(self, x):
        return self.b(self.a(x))
""",
    "plain configure": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x)
class T:
    def __init__(self):
        self.model = Net()
        self.configure()
        self.model.fc = nn.Linear(3, 4)  # expect: optimizer-misses-parameters
    def configure(self):
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def step(self, x):
        self.model(x).sum().backward()
        self.optimizer.step()
""",
    "async": """\
import torch
from torch import nn
async def go(x):
    net = nn.Linear(3, 3)
    await net.prepare()
    return net(x.cuda())  # expect: model-not-moved
""",
    "closures": """\
import torch
from torch import nn
def train(loader, device):
    net = nn.Linear(3, 3)
    def closure():
        return net(torch.rand(3, device=device))  # expect: model-not-moved
    for x in loader:
        opt.step(closure)
        closure()
""",
    "star import device": """\
from config import *
import torch
from torch import nn
net = nn.Linear(3, 3)
net(torch.rand(3).to(DEVICE))  # expect: model-not-moved
""",
    "one line": """\
import torch
from torch import nn
x = torch.rand(2, 3).cuda(); net = nn.Linear(3, 3); y = net(x)  # expect: model-not-moved
""",
    "device after model": """\
import torch
from torch import nn
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=1)
if torch.cuda.is_available():
    device = torch.device("cuda")
else:
    device = torch.device("cpu")
x = torch.rand(2, 3).to(device)
print(net(x))  # expect: model-not-moved
""",
    "build in if": """\
import torch
from torch import nn
def f(kind, x, device):
    if kind == "a":
        net = nn.Linear(3, 3)
    elif kind == "b":
        net = nn.Linear(3, 4)
    else:
        raise ValueError(kind)
    x = x.to(device)
    return net(x)  # expect: model-not-moved
""",
    "tab indented": """\
import torch
from torch import nn
def f(x, device):
\tnet = nn.Linear(3, 3)
\treturn net(x.to(device))  # expect: model-not-moved
""",
    "last line without newline": """\
import torch
from torch import nn
x = torch.rand(2, 3).cuda()
print(nn.Linear(3, 3)(x))  # expect: model-not-moved
""",
    "del and reuse": """\
import torch
from torch import nn
net = nn.Linear(3, 3)
net.to("cuda")
del net
net = nn.Linear(3, 3)
net(torch.rand(3).cuda())  # expect: model-not-moved
""",
    "type annotated": """\
import torch
from torch import nn
net: nn.Module = nn.Linear(3, 3)
device: torch.device = torch.device("cuda")
net(torch.rand(3).to(device=device))  # expect: model-not-moved
""",
    "subclass of sequential": """\
import torch
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 3), nn.ReLU())
net = Net()
net(torch.rand(3).cuda())  # expect: model-not-moved
""",
}
"""What is reported, where the marks are."""

IN_ORDER = {
    "moved in place": """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(3, 2)
model.to(device)
for x, y in loader:
    model(x.to(device))
""",
    "same condition": """\
import torch
from torch import nn
use_cuda = not args.no_cuda and torch.cuda.is_available()
model = nn.Linear(3, 2)
if use_cuda:
    model.cuda()
for x, y in loader:
    if use_cuda:
        x, y = x.cuda(), y.cuda()
    model(x)
""",
    "cuda condition, device conditional": """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(3, 2)
if torch.cuda.is_available():
    model.cuda()
for x, y in loader:
    model(x.to(device))
""",
    "cuda condition and cuda data": """\
import torch
from torch import nn
model = nn.Linear(3, 2)
cuda = torch.cuda.is_available()
if cuda:
    model = model.cuda()
for x, y in loader:
    model(x.cuda())
""",
    "conditional through function arg": """\
import torch
from torch import nn
def train(model, use_cuda):
    for x in loader:
        if use_cuda:
            x = x.cuda()
        model(x)
def main(args):
    use_cuda = args.cuda and torch.cuda.is_available()
    model = nn.Linear(3, 2)
    if use_cuda:
        model.cuda()
    train(model, use_cuda)
if __name__ == "__main__":
    main(parse())
""",
    "args.gpu": """\
import torch
from torch import nn
def main(args):
    model = nn.Linear(3, 2)
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    for x in loader:
        if args.gpu is not None:
            x = x.cuda(args.gpu, non_blocking=True)
        model(x)
""",
    "device literal ternary model": """\
import torch
from torch import nn
CUDA = torch.cuda.is_available()
model = nn.Linear(3, 2).cuda() if CUDA else nn.Linear(3, 2)
for x in loader:
    x = x.cuda() if CUDA else x
    model(x)
""",
    "loops over models": """\
import torch
from torch import nn
a, b = nn.Linear(3, 2), nn.Linear(2, 3)
for m in (a, b):
    m.to(device)
    m.train()
models = {"a": nn.Linear(3, 2), "b": nn.Linear(2, 3)}
for k in models:
    models[k] = models[k].to(device)
for name, m in models.items():
    m.cuda()
x = x.to(device)
models["b"](models["a"](b(a(x))))
nets = [nn.Linear(3, 2) for _ in range(3)]
nets = [n.to(device) for n in nets]
nets[0](x)
""",
    "cpu literal": """\
import torch
from torch import nn
device = torch.device("cpu")
model = nn.Linear(3, 2)
model(torch.rand(2, 3).to(device))
model(torch.rand(2, 3).to("cpu"))
model(torch.rand(2, 3, device="cpu"))
""",
    "accelerate": """\
import torch
from torch import nn
from accelerate import Accelerator
acc = Accelerator()
model = nn.Linear(3, 2)
model, opt, dl = acc.prepare(model, opt, dl)
for x in dl:
    model(x.to(acc.device))
""",
    "fabric": """\
import torch
from torch import nn
from lightning.fabric import Fabric
fabric = Fabric()
model = nn.Linear(3, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model, opt = fabric.setup(model, opt)
for x in dl:
    model(x.to(fabric.device))
""",
    "deepspeed": """\
import torch, deepspeed
from torch import nn
model = nn.Linear(3, 2)
engine, opt, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters())
for x in dl:
    engine(x.to(engine.device))
    model(x.to(engine.device))
""",
    "ddp": """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
def run(rank):
    model = nn.Linear(3, 2).to(rank)
    model = DDP(model, device_ids=[rank])
    for x in dl:
        model(x.to(rank))
""",
    "set_default_device": """\
import torch
from torch import nn
torch.set_default_device("cuda")
model = nn.Linear(3, 2)
model(torch.rand(2, 3).to("cuda"))
""",
    "with device": """\
import torch
from torch import nn
device = torch.device("cuda")
with torch.device("cuda"):
    model = nn.Linear(3, 2)
with device:
    model2 = nn.Linear(3, 2)
x = torch.rand(2, 3).to(device)
model(x) + model2(x)
""",
    "compile": """\
import torch
from torch import nn
model = torch.compile(nn.Linear(3, 2).to("cuda"))
x = torch.rand(2, 3).to("cuda")
model(x)
m2 = nn.Linear(3, 2)
m2 = torch.compile(m2)
m2.cuda()
m2(x)
""",
    "self.to in init": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.to(self.device)
    def forward(self, x):
        return self.fc(x)
q = Q()
q(torch.rand(2, 3).to(q.device))
""",
    "unknown function": """\
import torch
from torch import nn
from lib import build, setup
model = build()
net = nn.Linear(3, 2)
setup(net)
other = nn.Linear(3, 2)
other = setup(other, "x")
x = torch.rand(2, 3).to("cuda")
model(x), net(x), other(x)
""",
    "HF trainer and lightning": """\
import torch
from torch import nn
from transformers import Trainer
model = nn.Linear(3, 2)
trainer = Trainer(model=model)
trainer.train()
model(torch.rand(2, 3).to("cuda"))
""",
    "forward moves its input": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.fc = nn.Linear(3, 2)
    def forward(self, x):
        x = x.to(self.fc.weight.device)
        return self.fc(x)
net = Net("cuda")
net(torch.rand(2, 3).to("cuda"))
""",
    "device from the model": """\
import torch
from torch import nn
model = nn.Linear(3, 2)
device = next(model.parameters()).device
x = torch.rand(2, 3).to(device)
model(x)
model(torch.rand(2, 3).to(model.weight.device))
""",
    "device param with model's device": """\
import torch
from torch import nn
def ev(model, x, device):
    return model(x.to(device))
def main():
    model = nn.Linear(3, 2)
    ev(model, torch.rand(2, 3), next(model.parameters()).device)
main()
""",
    "moved in other method": """\
import torch
from torch import nn
class T:
    def __init__(self):
        self.device = "cuda"
        self.model = nn.Linear(3, 2)
    def setup(self):
        self.model.to(self.device)
    def step(self, x):
        return self.model(x.to(self.device))
""",
    "moved by setup helper first": """\
import torch
from torch import nn
class T:
    def __init__(self, device):
        self.device = device
        self.build()
    def build(self):
        self.model = nn.Linear(3, 2)
        self.model = self.model.to(self.device)
    def step(self, x):
        return self.model(x.to(self.device))
""",
    "global model moved in main": """\
import torch
from torch import nn
model = nn.Linear(3, 2)
def predict(x):
    return model(x.to("cuda"))
def main():
    model.cuda()
    predict(1)
""",
    "stateless": """\
import torch
from torch import nn
crit = nn.MSELoss()
act = nn.ReLU()
x = torch.rand(2, 3).to("cuda")
crit(act(x), x)
""",
    "loss weight moved": """\
import torch
from torch import nn
w = torch.tensor([1.0, 2.0]).to("cuda")
crit = nn.CrossEntropyLoss(weight=w)
crit2 = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0], device="cuda"))
crit3 = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0])).to("cuda")
crit4 = nn.CrossEntropyLoss(weight=torch.FloatTensor([1.0, 2.0]).cuda())
crit5 = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
x = torch.rand(2, 3).to("cuda")
crit(x, x), crit2(x, x), crit3(x, x), crit4(x, x), crit5(x, x)
""",
    "replaced before the move": """\
import torch, torchvision
from torch import nn
model = torchvision.models.resnet18()
model.fc = nn.Linear(3, 2)
model = model.to("cuda")
opt = torch.optim.SGD(model.parameters(), lr=1)
model(torch.rand(2, 3).to("cuda"))
opt.step()
""",
    "replaced and moved again": """\
import torch, torchvision
from torch import nn
model = torchvision.models.resnet18().cuda()
model.fc = nn.Linear(3, 2)
model.cuda()
opt = torch.optim.SGD(model.parameters(), lr=1)
model(torch.rand(2, 3).cuda())
opt.step()
""",
    "replaced with moved layer": """\
import torch, torchvision
from torch import nn
model = torchvision.models.resnet18().cuda()
model.fc = nn.Linear(3, 2).cuda()
model.fc2 = nn.Linear(3, 2, device="cuda")
model.avgpool = nn.Identity()
model(torch.rand(2, 3).cuda())
""",
    "optimizer rebuilt": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
opt = torch.optim.SGD(model.parameters(), lr=1)
model[1] = nn.Linear(2, 3)
opt = torch.optim.SGD(model.parameters(), lr=1)
opt.step()
""",
    "layer without parameters": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
opt = torch.optim.SGD(model.parameters(), lr=1)
model[1] = nn.ReLU()
model.act = nn.Identity()
opt.step()
""",
    "add_param_group": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
opt = torch.optim.SGD(model.parameters(), lr=1)
model.head = nn.Linear(2, 3)
opt.add_param_group({"params": model.head.parameters()})
opt.step()
""",
    "replaced at the end for export": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
opt = torch.optim.SGD(model.parameters(), lr=1)
for x in loader:
    model(x).sum().backward()
    opt.step()
model[1] = nn.Linear(2, 5)
torch.save(model.state_dict(), "m.pt")
""",
    "optimizer of another": """\
import torch
from torch import nn
enc, model = nn.Linear(2, 2), nn.Sequential(nn.Linear(3, 2))
opt = torch.optim.SGD(enc.parameters(), lr=1)
model.head = nn.Linear(2, 3)
opt.step()
""",
    "part moved by hand": """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.b = nn.Linear(2, 3)
    def forward(self, x):
        return self.b(self.a(x))
net = Net()
net.a.to("cuda")
net.b.to("cuda")
net(torch.rand(2, 3).cuda())
""",
    "map lambda": """\
import torch
from torch import nn
a, b = nn.Linear(3, 2), nn.Linear(2, 3)
a, b = map(lambda m: m.to("cuda"), (a, b))
a(torch.rand(2, 3).cuda()), b(torch.rand(2, 3).cuda())
""",
    "device branch": """\
import torch
from torch import nn
def main(cfg):
    if torch.cuda.is_available():
        device = torch.device("cuda")
    else:
        device = torch.device("cpu")
    model = nn.Linear(2, 3)
    if device.type == "cuda":
        model = nn.DataParallel(model).cuda()
    for x in dl:
        model(x.to(device))
""",
    "unknown device branch": """\
import torch
from torch import nn
def main(model_cls, device):
    model = nn.Linear(2, 3)
    if device != "cpu":
        model.to(device)
    for x in dl:
        model(x.to(device))
""",
    "to_device helper": """\
import torch
from torch import nn
def to_device(obj, device):
    if isinstance(obj, (list, tuple)):
        return [to_device(o, device) for o in obj]
    return obj.to(device)
device = torch.device("cuda")
model = to_device(nn.Linear(3, 2), device)
x = to_device(torch.rand(2, 3), device)
model(x)
""",
    "try": """\
import torch
from torch import nn
model = nn.Linear(3, 2)
try:
    model.cuda()
except RuntimeError:
    pass
model(torch.rand(2, 3).cuda())
""",
    "imagenet": """\
import torch
from torch import nn
import torchvision.models as models
def main_worker(gpu, args):
    model = models.__dict__[args.arch]()
    m2 = models.resnet18()
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        print("slow")
    elif args.distributed:
        if torch.cuda.is_available():
            if args.gpu is not None:
                torch.cuda.set_device(args.gpu)
                m2.cuda(args.gpu)
                m2 = torch.nn.parallel.DistributedDataParallel(m2, device_ids=[args.gpu])
            else:
                m2.cuda()
                m2 = torch.nn.parallel.DistributedDataParallel(m2)
    elif args.gpu is not None and torch.cuda.is_available():
        torch.cuda.set_device(args.gpu)
        m2 = m2.cuda(args.gpu)
    elif torch.backends.mps.is_available():
        device = torch.device("mps")
        m2 = m2.to(device)
    else:
        m2 = torch.nn.DataParallel(m2).cuda()
    if torch.cuda.is_available():
        if args.gpu:
            device = torch.device('cuda:{}'.format(args.gpu))
        else:
            device = torch.device("cuda")
    elif torch.backends.mps.is_available():
        device = torch.device("mps")
    else:
        device = torch.device("cpu")
    criterion = nn.CrossEntropyLoss().to(device)
    for images, target in loader:
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = m2(images)
        criterion(output, target)
""",
    "back to cpu": """\
import torch
from torch import nn
model = nn.Linear(3, 2).cuda()
x = torch.rand(2, 3).cuda()
y = model(x).cpu()
m2 = nn.Linear(2, 3)
m2(y)
m2(torch.from_numpy(model(x).detach().cpu().numpy()))
""",
    "unknown base": """\
import torch
from torch import nn
from .base import Base
class A(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)
    def run(self, x, device):
        return self.fc(x.to(device))
""",
    "dtype": """\
import torch
from torch import nn
def f(x, y):
    m = nn.Linear(2, 3)
    return m(x.to(y.dtype)) + m(x.to(dtype=torch.float16)) + m(y.to(x.device))
""",
    "old types fine": """\
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
cuda = opt.cuda and torch.cuda.is_available()
G = nn.Linear(3, 3)
if cuda:
    G.cuda()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
for i, (imgs, _) in enumerate(dataloader):
    real = Variable(imgs.type(Tensor))
    z = Variable(Tensor(np.random.normal(0, 1, (3, 3))))
    fake = G(z)
    G(real)
""",
    "device kw after self.to": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.to(device)
        self.b = nn.Linear(3, 3, device=device)
        self.c = nn.Linear(3, 3).to(device)
        self.d = nn.Linear(3, 3)
        self.d.to(device)
        self.act = nn.ReLU()
        self.e = nn.Parameter(torch.zeros(3, device=device))
    def forward(self, x):
        return self.d(self.b(self.act(self.a(x))))
""",
    "moved again": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.to(device)
        self.b = nn.Linear(3, 3)
        self.to(device)
    def forward(self, x):
        return self.b(self.a(x))
""",
    "dtype only": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.to(torch.float64)
        self.b = nn.Linear(3, 3).double()
    def forward(self, x):
        return self.b(self.a(x))
""",
    "moved by the script": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.to(device)
        self.b = nn.Linear(3, 3)
    def forward(self, x):
        return self.b(self.a(x))
q = Q("cuda").to("cuda")
""",
    "optimizer last": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.opt = torch.optim.SGD(self.parameters(), lr=0.1)
        self.loss = nn.MSELoss()
        self.act = nn.ReLU()
    def forward(self, x):
        return self.act(self.b(self.a(x)))
""",
    "separate optimizers": """\
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(3, 3)
        self.opt_a = torch.optim.SGD(self.actor.parameters(), lr=0.1)
        self.critic = nn.Linear(3, 3)
        self.opt_c = torch.optim.SGD(self.critic.parameters(), lr=0.1)
    def forward(self, x):
        return self.critic(self.actor(x))
""",
    "optimizer of self all and then target not trained": """\
import copy
import torch
from torch import nn
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 3)
        self.opt = torch.optim.SGD(self.parameters(), lr=0.1)
        self.target = copy.deepcopy(self.net)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.t2 = nn.Linear(3, 3)
        self.t2.load_state_dict(self.net.state_dict())
        for p in self.t2.parameters():
            p.requires_grad = False
    def forward(self, x):
        return self.net(x), self.target(x), self.t2(x), self.frozen(x)
""",
    "frozen script": """\
import copy
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.teacher = copy.deepcopy(model[0])
model.teacher.requires_grad_(False)
model.old = nn.Linear(3, 3).requires_grad_(False)
opt.step()
""",
    "frozen parameter by parameter": """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.old = nn.Linear(3, 3)
for p in model.old.parameters():
    p.requires_grad_(False)
opt.step()
""",
    "walrus and lambda": """\
import torch
from torch import nn
net = nn.Linear(3, 3)
f = lambda x: net(x.to("cuda"))
net.to("cuda")
f(torch.rand(3))
""",
    "closure moved later": """\
import torch
from torch import nn
def train(loader, device):
    net = nn.Linear(3, 3)
    def closure():
        return net(torch.rand(3, device=device))
    net.to(device)
    closure()
""",
    "match": """\
import torch
from torch import nn
def train(loader, device):
    net = nn.Linear(3, 3)
    match device:
        case "cuda":
            net.cuda()
        case _:
            pass
    net(torch.rand(3, device=device))
""",
    "while": """\
import torch
from torch import nn
net = nn.Linear(3, 3)
while True:
    net.cuda()
    net(torch.rand(3).cuda())
""",
    "early return": """\
import torch
from torch import nn
def f(x):
    net = nn.Linear(3, 3)
    if not torch.cuda.is_available():
        return net(x)
    net.cuda()
    return net(x.cuda())
""",
    "global in function": """\
import torch
from torch import nn
net = None
def setup():
    global net
    net = nn.Linear(3, 3)
    net.cuda()
def run(x):
    return net(x.cuda())
""",
    "unpack list": """\
import torch
from torch import nn
a, b = [nn.Linear(3, 3) for _ in range(2)]
a.cuda()
b.cuda()
a(b(torch.rand(3).cuda()))
""",
    "tuple move": """\
import torch
from torch import nn
enc, dec = nn.Linear(3, 3), nn.Linear(3, 3)
enc, dec = enc.cuda(), dec.cuda()
dec(enc(torch.rand(3).cuda()))
""",
    "lightning module script": """\
import torch, lightning as L
from torch import nn
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 3)
    def forward(self, x):
        return self.net(x)
    def training_step(self, batch, i):
        x = batch.to("cuda")  # warning: hard-coded-device
        return self.net(x).sum()
m = Lit()
trainer = L.Trainer()
trainer.fit(m)
m(torch.rand(3).cuda())
""",
    "metric object": """\
import torch, torchmetrics
from torch import nn
acc = torchmetrics.Accuracy(task="binary")
acc(torch.rand(3).cuda(), torch.rand(3).cuda())
""",
    "hf": """\
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained("x")
model = AutoModel.from_pretrained("x")
enc = tok("a", return_tensors="pt").to("cuda")
model(**enc)
""",
    "generator arg": """\
import torch
from torch import nn
g = torch.Generator(device="cuda")
x = torch.rand(3, generator=g, device="cuda")
net = nn.Linear(3, 3)
net(x.cpu())
net(x.detach().cpu().float())
net(torch.tensor(x.tolist()))
""",
}
"""Look-alikes in which nothing is wrong, or nobody knows."""


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_what_is_left_behind_is_found(name: str) -> None:
    assert_marked(LEFT_BEHIND[name])


@pytest.mark.parametrize("name", IN_ORDER)
def test_nothing_is_said_of_what_is_in_order(name: str) -> None:
    assert_marked(IN_ORDER[name])
