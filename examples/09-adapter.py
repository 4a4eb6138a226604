#!/usr/bin/env python3
"""Adapters in PyTorch: the start is a public network; clients train only a low-rank part of it, so
updates are small and the noise falls on few values. The public pictures are dark on light, those of
the clients light on dark.

    09-adapter.py start start.safetensors                  # trains the public network, writes it
    09-adapter.py client 3 client.yml [setting=value ...]  # takes part; the task: training.only=adapter.*
    09-adapter.py test round-10.safetensors                # accuracy on light pictures
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

import sefl.torch

PIXELS, WIDTH, RANK, CLASSES = 64, 48, 4, 4


class Network(nn.Module):
    """Two layers; the adapter adds up (down x) of low rank to each of them. It starts at zero."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.base = nn.ModuleList([nn.Linear(PIXELS, WIDTH), nn.Linear(WIDTH, CLASSES)])
        self.adapter = nn.ModuleList()
        for layer in self.base:
            down = nn.Linear(layer.in_features, RANK, bias=False)
            up = nn.Linear(RANK, layer.out_features)
            nn.init.zeros_(up.weight), nn.init.zeros_(up.bias)
            self.adapter.append(nn.Sequential(down, up))

    def forward(self, x):
        h = torch.relu(self.base[0](x) + self.adapter[0](x))
        return self.base[1](h) + self.adapter[1](h)


def pictures(owner, light, n=300):
    """Four fixed patterns under noise."""
    patterns = torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(7))
    source = torch.Generator().manual_seed(owner)
    labels = torch.randint(CLASSES, (n,), generator=source)
    x = patterns[labels] + 1.5 * torch.randn(n, PIXELS, generator=source)
    return (x if light else -x), labels


def train(model, x, y, passes, seed):
    """Trains the parameters that are not frozen; returns the number of pictures."""
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    order = torch.Generator().manual_seed(seed)
    for _ in range(passes):
        for some in torch.randperm(len(x), generator=order).split(20):
            optimiser.zero_grad()
            F.cross_entropy(model(x[some]), y[some]).backward()
            optimiser.step()
    return len(x)


def main(what, *arguments):
    torch.set_num_threads(1)
    model = Network()
    if what == "start":
        model.adapter.requires_grad_(False)
        train(model, *pictures(100, light=False), passes=10, seed=1)
        sefl.torch.save(model, arguments[0])
    elif what == "test":
        x, y = pictures(0, light=True, n=2000)
        right = sefl.torch.restore(model, arguments[0])(x).argmax(1) == y
        print(f"accuracy {float(right.float().mean()):.4f}")
    else:
        owner, config, *settings = arguments
        mine = pictures(int(owner), light=True)
        sefl.torch.federate(model, lambda m, r: train(m, *mine, passes=2, seed=r.number), config,
                            trainable=lambda name: name.startswith("adapter."),
                            settings=dict(s.split("=", 1) for s in settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
