#!/usr/bin/env python3
"""A client in PyTorch: a small convolutional network learns to tell four shapes apart. Each client
has its own pictures, most of them of one shape.

    08-torch.py start start.safetensors                    # writes the public start of the task
    08-torch.py client 3 client.yml [setting=value ...]    # takes part as the owner of pictures 3
    08-torch.py test round-10.safetensors                  # accuracy on pictures that nobody owns
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

import sefl.torch


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 4),
    )


def pictures(owner, n=400):
    """Bars, columns, diagonals and frames at random places, under noise. Owner 0 has all shapes
    alike; of the others' pictures, half have one shape."""
    source = torch.Generator().manual_seed(owner)
    labels = torch.randint(4, (n,), generator=source)
    if owner > 0:
        labels[: n // 2] = owner % 4
    x = torch.zeros(n, 1, 16, 16)
    for picture, label in zip(x, labels):
        i, j = torch.randint(10, (2,), generator=source).tolist()
        place = picture[0, i : i + 6, j : j + 6]
        if label == 0:
            place[2:4] = 1
        elif label == 1:
            place[:, 2:4] = 1
        elif label == 2:
            place[torch.eye(6).bool()] = 2
        else:
            place[[0, 5]] = place[:, [0, 5]] = 1
    return x + 0.3 * torch.randn(x.shape, generator=source), labels


def train(model, x, y, seed):
    """One pass over the pictures; returns their number."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for some in torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).split(20):
        optimiser.zero_grad()
        F.cross_entropy(model(x[some]), y[some]).backward()
        optimiser.step()
    return len(x)


def accuracy(model):
    x, y = pictures(0, 2000)
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def main(what, *arguments):
    torch.set_num_threads(1)
    model = network()
    if what == "start":
        sefl.torch.save(model, arguments[0])
    elif what == "test":
        print(f"accuracy {accuracy(sefl.torch.restore(model, arguments[0])):.4f}")
    else:
        owner, config, *settings = arguments
        mine = pictures(int(owner))
        sefl.torch.federate(model, lambda m, r: train(m, *mine, seed=r.number), config,
                            settings=dict(s.split("=", 1) for s in settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
