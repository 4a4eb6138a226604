#!/usr/bin/env python3
"""pytorch_compare.py [--sefl PROGRAM] [--data FOLDER] [--skip-speed] [--seconds S] [--rounds N]

Needs PyTorch (Debian: python3-torch). Three comparisons with the models of PyTorch's
word-language-model example, written here from the documentation of torch.nn:

  forward    a model trained by sefl, exported, evaluated by PyTorch: mean loss a word within 1e-4
  training   the same initial weights, five steps of SGD with clipping on both sides: every weight
             within 1e-4 of the largest one
  speed      words a second of a training step, batch 20 x 35, vocabulary 33,278, dropout 0.2;
             PyTorch with 1 and 2 threads, sefl with 2; the best of several rounds in which all
             take turns, because machines have moods

Without --data the text is generated. Exits 1 if a comparison fails, 2 without PyTorch.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("pytorch_compare: PyTorch is not installed here (Debian: python3-torch); nothing was compared",
          file=sys.stderr)
    sys.exit(2)


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n])
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        data = bytearray(raw[8 + n + a : 8 + n + b])
        out[name] = torch.frombuffer(data, dtype=torch.float32).reshape(t["shape"])
    return out


class Lstm(nn.Module):
    def __init__(self, vocab, size, layers, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocab, size)
        self.rnn = nn.LSTM(size, size, layers, dropout=dropout)
        self.decoder = nn.Linear(size, vocab)

    def forward(self, words, state):
        x, state = self.rnn(self.drop(self.encoder(words)), state)
        return self.decoder(self.drop(x)), state


class Positions(nn.Module):
    def __init__(self, size, dropout, longest=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        at = torch.arange(longest, dtype=torch.float).unsqueeze(1)
        rate = torch.exp(torch.arange(0, size, 2).float() * (-math.log(10000.0) / size))
        pe = torch.zeros(longest, size)
        pe[:, 0::2] = torch.sin(at * rate)
        pe[:, 1::2] = torch.cos(at * rate)
        self.register_buffer("pe", pe.unsqueeze(1))

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class Transformer(nn.Module):
    def __init__(self, vocab, size, layers, dropout, heads=2):
        super().__init__()
        self.size = size
        self.pos_encoder = Positions(size, dropout)
        layer = nn.TransformerEncoderLayer(size, heads, size, dropout)
        self.transformer_encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.encoder = nn.Embedding(vocab, size)
        self.decoder = nn.Linear(size, vocab)

    def forward(self, words, state):
        n = words.size(0)
        mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
        x = self.pos_encoder(self.encoder(words) * math.sqrt(self.size))
        return self.decoder(self.transformer_encoder(x, mask)), None


KINDS = {"lstm": Lstm, "transformer": Transformer}


def load(kind, path, vocab, size, layers, dropout=0.0):
    model = KINDS[kind](vocab, size, layers, dropout)
    missing, extra = model.load_state_dict(read_safetensors(path), strict=False)
    missing = [m for m in missing if m != "pos_encoder.pe"]
    extra = [e for e in extra if e != "pos_encoder.pe"]
    if missing or extra:
        sys.exit(f"pytorch_compare: {path}: missing {missing}, not known {extra}")
    return model


def columns(words, batch):
    n = len(words) // batch
    return torch.tensor(words[: n * batch]).view(batch, n).t().contiguous()


def detached(state):
    return None if state is None else tuple(s.detach() for s in state)


def evaluate(model, words, bptt=35):
    model.eval()
    data, state, total = columns(words, 10), None, 0.0
    with torch.no_grad():
        for i in range(0, data.size(0) - 1, bptt):
            n = min(bptt, data.size(0) - 1 - i)
            out, state = model(data[i : i + n], state)
            target = data[i + 1 : i + 1 + n].reshape(-1)
            total += n * nn.functional.cross_entropy(out.reshape(-1, out.size(-1)), target).item()
    return total / (data.size(0) - 1)


def train(model, data, steps, lr, clip, bptt=35):
    """Steps of SGD over the columns of data, from the top, state carried."""
    model.train()
    state, i = None, 0
    for _ in range(steps):
        n = min(bptt, data.size(0) - 1 - i)
        state = detached(state)
        model.zero_grad()
        out, state = model(data[i : i + n], state)
        target = data[i + 1 : i + 1 + n].reshape(-1)
        nn.functional.cross_entropy(out.reshape(-1, out.size(-1)), target).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
        i = 0 if i + n + 1 >= data.size(0) else i + n


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--sefl", default=os.environ.get("SEFL", "build/release/sefl"))
    ap.add_argument("--data")
    ap.add_argument("--skip-speed", action="store_true")
    ap.add_argument("--seconds", type=float, default=4, help="of each measurement")
    ap.add_argument("--rounds", type=int, default=3, help="of all measurements, one after another")
    args = ap.parse_args()
    failed = False

    def sefl(*a):
        r = subprocess.run([args.sefl, *map(str, a)], capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"pytorch_compare: sefl {' '.join(map(str, a))}: {r.stderr}")
        return r.stdout

    print(f"torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as tmp:
        data = args.data
        if not data:
            data = f"{tmp}/text"
            sefl("synth", "--out", data, "--tokens", 60000, "--clients", 2)
        size, layers = (200, 2) if args.data else (40, 2)
        for kind in KINDS:
            out = f"{tmp}/{kind}"
            common = ["--data", data, "--model", kind, "--block", 1, "--seed", 1,
                      "--set", f"model.embed={size}", "--set", f"model.hidden={size}",
                      "--set", "vocab.order=appearance"]
            sefl("train", *common, "--epochs", 1, "--max-steps", 150, "--lr", 0.003, "--out", out,
                 "--set", "training.optimiser=adam")
            with open(f"{out}/vocab.txt", encoding="utf-8") as f:
                ids = {w.rstrip("\n"): i for i, w in enumerate(f)}

            def tokens(split):
                with open(f"{data}/{split}.txt", encoding="utf-8") as f:
                    text = [ids.get(w, ids["<unk>"]) for l in f for w in l.split() + ["<eos>"]]
                return text

            model_file, dense = f"{out}/model.safetensors", f"{out}/dense.safetensors"
            sefl("model", "export", model_file, "--out", dense)
            theirs = evaluate(load(kind, dense, len(ids), size, layers), tokens("valid"))
            report = json.loads(sefl("model", "eval", model_file, "--vocab", f"{out}/vocab.txt",
                                     "--data", f"{data}/valid.txt", "--json"))
            ours = report.get("loss", report.get("mean_nats"))
            if ours is None:
                ours = math.log(report["perplexity"])
            ok = abs(ours - theirs) < 1e-4
            failed |= not ok
            print(f"forward   {kind:12} sefl {ours:.6f}  torch {theirs:.6f}  "
                  f"difference {abs(ours - theirs):.1e}  {'ok' if ok else 'FAILED'}")

            lr = 20 if kind == "lstm" else 5
            first, after = f"{tmp}/{kind}-0.safetensors", f"{tmp}/{kind}-5"
            sefl("model", "new", f"{tmp}/new", "--vocab", f"{out}/vocab.txt", "--model", kind,
                 "--embed", size, "--hidden", size, "--seed", 1, "--order", "appearance")
            sefl("model", "export", f"{tmp}/new", "--out", first)
            os.remove(f"{tmp}/new")
            sefl("train", *common, "--max-steps", 5, "--lr", lr, "--set", "training.dropout=0",
                 "--out", after)
            sefl("model", "export", f"{after}/model.safetensors", "--out", f"{after}/dense")
            model = load(kind, first, len(ids), size, layers)
            train(model, columns(tokens("train"), 20), 5, lr, 0.25)
            ours5, worst = read_safetensors(f"{after}/dense"), 0.0
            for name, p in model.named_parameters():
                worst = max(worst, ((p - ours5[name]).abs().max() / p.abs().max()).item())
            ok = worst < 1e-4
            failed |= not ok
            print(f"training  {kind:12} five steps: largest difference {worst:.1e} of the largest "
                  f"weight  {'ok' if ok else 'FAILED'}")

        for kind in KINDS if not args.skip_speed else ():
            best = {}

            def measured(name, rate):
                best[name] = max(best.get(name, 0.0), rate)

            models = {threads: KINDS[kind](33278, 200, 2, 0.2) for threads in (1, 2)}
            data = torch.randint(33278, (10000, 20))
            for _ in range(args.rounds):
                for threads, model in models.items():
                    torch.set_num_threads(threads)
                    train(model, data, 2, 1, 0.25)
                    n, t0 = 0, time.perf_counter()
                    while n < 4 or time.perf_counter() - t0 < args.seconds:
                        train(model, data, 2, 1, 0.25)
                        n += 2
                    measured(f"torch, {threads} thread(s)", 700 * n / (time.perf_counter() - t0))
                for block in (1, 32):
                    rows = [json.loads(l) for l in
                            sefl("bench", "train", "--model", kind, "--block", block, "--threads", 2,
                                 "--seconds", args.seconds, "--json").splitlines()]
                    step = next(r for r in rows if r["case"].endswith("training step"))
                    measured(f"sefl, 2 threads, l={block}", step["value"])
                    if block == 1:
                        measured("SGEMM of the dense shapes", step["floor"])
            peer = max(rate for name, rate in best.items() if name.startswith("torch"))
            for name, rate in best.items():
                print(f"speed     {kind:12} {name:26} {rate:6.0f} words/s  {rate / peer:.2f} times "
                      f"torch's best")
    sys.exit(1 if failed else 0)


main()
