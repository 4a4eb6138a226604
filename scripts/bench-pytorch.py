#!/usr/bin/env python3
"""PyTorch's training speed on this GPU for the shapes of `sefl bench train`, one JSON line per case:
LSTM and Transformer, dense, 2 layers, embedding and hidden 200, dropout 0.2, gradient clip 0.25, SGD;
eager and torch.compile; fp32, TF32 and bf16 (autocast) products; batch 20 (one client) and 200 (ten
clients' words in one model). Compare fp32 with `precision: fp32`, TF32 and bf16 with `precision: bf16`.

    scripts/bench-pytorch.py [--batch 20,200] [--precision fp32,TF32,bf16] [--steps 35] [--vocab 33278]
                             [--seconds 3] [--device cuda]
"""
import argparse
import itertools
import json
import math
import time

import torch
from torch import nn


class Lstm(nn.Module):
    def __init__(self, vocab, width, layers, dropout):
        super().__init__()
        self.encoder = nn.Embedding(vocab, width)
        self.drop = nn.Dropout(dropout)
        self.rnn = nn.LSTM(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, vocab)

    def forward(self, words, state):
        out, state = self.rnn(self.drop(self.encoder(words)), state)
        return self.decoder(self.drop(out)), state


class Transformer(nn.Module):
    def __init__(self, vocab, width, layers, dropout, steps, heads=2):
        super().__init__()
        self.width = width
        self.encoder = nn.Embedding(vocab, width)
        self.drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(width, heads, width, dropout)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(width, vocab)
        at = torch.arange(steps).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        places = torch.zeros(steps, 1, width)
        places[:, 0, 0::2] = torch.sin(at * rate)
        places[:, 0, 1::2] = torch.cos(at * rate)
        self.register_buffer("places", places)
        self.register_buffer("mask", torch.triu(torch.full((steps, steps), -math.inf), diagonal=1))

    def forward(self, words, state):
        x = self.encoder(words) * math.sqrt(self.width) + self.places
        return self.decoder(self.body(self.drop(x), mask=self.mask)), state


def measure(kind, batch, compiled, precision, args):
    torch.manual_seed(1)
    device = torch.device(args.device)
    width, layers, dropout = 200, 2, 0.2
    if kind == "lstm":
        model = Lstm(args.vocab, width, layers, dropout)
        state = tuple(torch.zeros(layers, batch, width, device=device) for _ in range(2))
    else:
        model = Transformer(args.vocab, width, layers, dropout, args.steps)
        state = None
    model.to(device).train()
    run = torch.compile(model) if compiled else model
    loss_of = nn.CrossEntropyLoss()
    text = (torch.rand(args.steps * 64 + 1, batch, device=device) ** 3 * args.vocab).long()
    done = 0

    def step():
        nonlocal state, done
        at = done % 64 * args.steps
        done += 1
        model.zero_grad(set_to_none=True)
        if state is not None:
            state = tuple(s.detach() for s in state)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            out, state = run(text[at : at + args.steps], state)
            loss = loss_of(out.view(-1, args.vocab), text[at + 1 : at + 1 + args.steps].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-1.0)

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(10):
        step()
    wait()
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < args.seconds:
        for _ in range(10):
            step()
        wait()
        steps += 10
    seconds = time.perf_counter() - began
    return steps * batch * args.steps / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", default="20,200")
    parser.add_argument("--precision", default="fp32,TF32,bf16")
    parser.add_argument("--steps", type=int, default=35)
    parser.add_argument("--vocab", type=int, default=33278)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    name = torch.cuda.get_device_name() if args.device == "cuda" else args.device
    kinds, batches = ("lstm", "transformer"), [int(b) for b in args.batch.split(",")]
    precisions = args.precision.split(",")
    for kind, batch, compiled, precision in itertools.product(kinds, batches, (False, True), precisions):
        torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
        torch.backends.cudnn.allow_tf32 = precision == "TF32"
        torch.compiler.reset()  # compiled code depends on the precision
        how = f"{'torch.compile' if compiled else 'eager'}, {precision}"
        line = {
            "bench": "pytorch",
            "case": f"{kind}: {how}, batch {batch}",
            "unit": "words/s",
            "precision": precision,
            "torch": torch.__version__,
            "device": name,
        }
        try:
            line["value"] = measure(kind, batch, compiled, precision, args)
        except Exception as why:  # torch.compile needs a compiler that may be missing
            line["failed"] = str(why).splitlines()[0]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
