#!/usr/bin/env python3
"""Perplexity against the number of clients at a fixed total epsilon, with three ways to add noise:

    independent   each client takes part in one round; the noise of each round is independent
    correlated    the same, and each round takes back part of earlier noise (privacy.filter)
    every-round   each client takes part in every round, with independent noise

and three ways to start: from random values, from a model of public text, and from that model with
only the recurrent layers trained (training.only), so that fewer values carry noise. A run that the
noise ends has the result "diverged".

    scripts/privacy-curves.py --sefl build/sefl                        # generated text, on the CPU
    scripts/privacy-curves.py --data DIR --device cuda --out results/private-wikitext  # WikiText-2

Each point is one run of `sefl simulate`. OUT/points.csv has its result, seed, command and the
commit of the program. OUT/table.md has the curves as numbers: the median over the seeds. The program
resumes: it does not repeat finished runs."""
import argparse
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys

NOISES = ["none", "independent", "correlated", "every-round"]
STARTS = ["random", "public", "public-body"]
COMMON = ["data.public=true", "vocab.order=appearance", "model.body=lstm",
          "rounds.threshold=2", "rounds.count=50", "server.step=momentum",
          "server.momentum=0.9", "models.keep=1"]
ROUNDS = 50

# Generated text: a client has 200 words, and 20,000 other words are public. Everybody in every
# round is run for up to 1,000 clients. A perplexity above `worst` is no better than a random model:
# the table calls it lost.
GENERATED = {
    "clients": [100, 300, 1000, 3000, 10000], "most": 1000,
    "model": ["model.embed=32", "model.hidden=64", "model.layers=1", "model.block=8",
              "model.batch=4", "model.steps=20"],
    "set": ["data.partition=contiguous", "training.lr=5", "eval.every=10"],
    "clip": {"random": 2, "public": 0.5, "public-body": 0.5}, "worst": 1000,
    "train": ["training.lr=5", "training.epochs=3"],
}
# A text of one's own: its first half is public, and the clients share the other half.
TEXT = {
    "clients": [100, 1000, 3000, 10000], "most": 1000,
    "model": ["model.embed=200", "model.hidden=200", "model.layers=2", "model.block=32",
              "model.batch=4", "model.steps=35"],
    "set": ["data.partition=round-robin", "training.lr=20", "training.dropout=0.2",
            "training.gradient_clip=0.25", "eval.every=50"],
    "clip": {"random": 1, "public": 0.3, "public-body": 0.3}, "worst": 30000,
    "train": ["model.batch=20", "training.lr=20", "training.dropout=0.2", "training.epochs=4"],
}


def options():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--sefl", default="build/sefl", help="the program (default build/sefl)")
    ap.add_argument("--out", default="results/private", help="folder of the results")
    ap.add_argument("--runs", default="runs/private", help="folder of the texts and runs")
    ap.add_argument("--data", help="folder with train.txt, valid.txt and test.txt; without it, "
                    "the program generates text")
    ap.add_argument("--device", default="cpu", help="cpu or cuda")
    ap.add_argument("--threads", default="0", help="threads of a run; 0: one per core")
    ap.add_argument("--epsilons", default="8,2", help="default 8,2")
    ap.add_argument("--clients", help="numbers of clients, as 100,1000")
    ap.add_argument("--noises", default=",".join(NOISES), help="default: all")
    ap.add_argument("--starts", default=",".join(STARTS), help="default: all")
    ap.add_argument("--seeds", default="1", help="seeds of the runs, as 1,2,3 (default 1)")
    ap.add_argument("--table", action="store_true", help="write the table, without new runs")
    o = ap.parse_args()
    o.kind = TEXT if o.data else GENERATED
    o.commit = ""
    return o


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit("%s\n%s" % (shlex.join(command), result.stderr[-2000:]))
    return result.stdout


def sets(values):
    return [word for v in values for word in ("--set", v)]


def copy_lines(source, target, first, last, blank=True):
    with open(source) as f, open(target, "w") as out:
        out.writelines(line for i, line in enumerate(f) if first <= i < last
                       and (blank or line.strip()))


def texts(o):
    """Makes the texts of all runs and the public model, once."""
    base = os.path.join(o.runs, "text")
    if os.path.exists(os.path.join(o.runs, "start", "model.safetensors")):
        return
    os.makedirs(base, exist_ok=True)
    source = o.data or os.path.join(base, "all")
    if not o.data and not os.path.exists(source):
        run([o.sefl, "synth", "--out", source, "--clients", "1", "--tokens", "2020000",
             "--seed", "1"])
    train = os.path.join(source, "train.txt")
    with open(train) as f:
        words = [len(line.split()) + 1 for line in f]
    # generated text: the first 20,000 words are public; otherwise half of the lines
    public, total = len(words) // 2, 0
    if not o.data:
        for public, n in enumerate(words):
            total += n
            if total >= 20000:
                break
    for name, first, last in (("public", 0, public), ("rest", public, len(words))):
        os.makedirs(os.path.join(base, name), exist_ok=True)
        # the clients' half has no blank lines: 10,000 clients get at least two words each
        copy_lines(train, os.path.join(base, name, "train.txt"), first, last, name == "public")
        for part in ("valid.txt", "test.txt"):
            copy_lines(os.path.join(source, part), os.path.join(base, name, part), 0, 1 << 60)
    vocab = os.path.join(base, "vocab.txt")
    block = next(v for v in o.kind["model"] if v.startswith("model.block=")).split("=")[1]
    run([o.sefl, "data", "vocab", train, "--out", vocab, "--block", block, "--force"])
    run([o.sefl, "train", "--data", os.path.join(base, "public"), "--vocab", vocab, "--out",
         os.path.join(o.runs, "start"), "--device", o.device]
        + sets(["vocab.order=appearance"] + o.kind["model"] + o.kind["train"]))


def text_of(o, clients):
    """Returns the folder with the text of this many clients."""
    rest = os.path.join(o.runs, "text", "rest")
    if o.data:
        return rest
    folder = os.path.join(o.runs, "text", "n%d" % clients)
    if not os.path.exists(os.path.join(folder, "train.txt")):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(rest, "train.txt")) as f:
            left, lines = 200 * clients, 0
            for line in f:
                left -= len(line.split()) + 1
                lines += 1
                if left <= 0:
                    break
        for part in ("valid.txt", "test.txt"):
            copy_lines(os.path.join(rest, part), os.path.join(folder, part), 0, 1 << 60)
        copy_lines(os.path.join(rest, "train.txt"), os.path.join(folder, "train.txt"), 0, lines)
    return folder


def settings(o, noise, start, epsilon, clients, seed):
    s = ["clients=%d" % clients, "seed=" + seed, "device=" + o.device, "threads=" + o.threads,
         "data.path=" + text_of(o, clients), "data.vocab=" + os.path.join(o.runs, "text", "vocab.txt"),
         "privacy.clip=%g" % o.kind["clip"][start]] + COMMON + o.kind["model"] + o.kind["set"]
    if noise == "none":
        s += ["privacy.noise=none", "privacy.claim=none"]
    else:
        s += ["privacy.claim=dp", "privacy.delta=1e-6", "privacy.epsilon=" + epsilon]
    if noise != "every-round":
        s += ["rounds.max_per_client=1", "rounds.separation=%d" % ROUNDS]
    if noise == "correlated":
        s += ["privacy.filter=auto"]
    if start != "random":
        s += ["model.init=" + os.path.join(o.runs, "start", "model.safetensors")]
    if start == "public-body":
        s += ["training.only=rnn.*"]
    return s


def point(o, noise, start, epsilon, clients, seed):
    name = "%s-%s-e%s-n%d-s%s" % (noise, start, epsilon, clients, seed)
    command = [o.sefl, "simulate", "-c", os.path.join(o.runs, "empty.yml"), "--runs", o.runs] + sets(
        ["name=" + name] + settings(o, noise, start, epsilon, clients, seed))
    summary, failed = (os.path.join(o.runs, name, f) for f in ("summary.json", "failed"))
    if not os.path.exists(summary) and not os.path.exists(failed):
        print(name, flush=True)
        with open(os.path.join(o.runs, "empty.yml"), "w") as f:
            f.write("# the command sets everything\n")
        result = subprocess.run(command, capture_output=True, text=True)
        if not os.path.exists(summary):
            # noise that drowns the model ends a run: that is a result
            if "diverged" not in result.stderr:
                sys.exit("%s\n%s" % (shlex.join(command), result.stderr[-2000:]))
            with open(failed, "w") as f:
                f.write(result.stderr)
    row = {"noise": noise, "start": start, "epsilon": epsilon, "clients": clients}
    row.update(dict.fromkeys(("rounds", "skipped", "z", "filter", "epsilon_spent", "first",
                              "last_test", "best_test", "seconds", "sha256"), ""))
    if os.path.exists(summary):
        with open(summary) as f:
            d = json.load(f)
        row.update({"rounds": d["rounds"], "skipped": d["skipped"], "z": d.get("z", ""),
                    "filter": d.get("filter", ""), "epsilon_spent": d.get("epsilon_server", ""),
                    "first": d.get("first_perplexity"), "last_test": d.get("last_test_perplexity"),
                    "best_test": d.get("best_test_perplexity"), "seconds": round(d["seconds"], 1),
                    "sha256": d["model_sha256"]})
    row.update({"result": "done" if row["sha256"] else "diverged", "seed": seed,
                "commit": o.commit, "command": shlex.join(command)})
    return row


def cells(o):
    for seed in o.seeds.split(","):
        for clients in [int(n) for n in o.clients.split(",")] if o.clients else o.kind["clients"]:
            for start in o.starts.split(","):
                for noise in o.noises.split(","):
                    if noise == "every-round" and clients > o.kind["most"]:
                        continue
                    for epsilon in ["inf"] if noise == "none" else o.epsilons.split(","):
                        yield noise, start, epsilon, clients, seed


def key(row):
    return (row["noise"], row["start"], row["epsilon"], int(row["clients"]), row["seed"])


def merge(o, rows):
    path = os.path.join(o.out, "points.csv")
    old = []
    if os.path.exists(path):
        with open(path, newline="") as f:
            old = list(csv.DictReader(f))
    new = {key(r) for r in rows}
    rows = sorted([r for r in old if key(r) not in new] + rows, key=key)
    if rows:
        os.makedirs(o.out, exist_ok=True)
        with open(path, "w", newline="") as f:
            w = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
            w.writeheader()
            w.writerows(rows)
    return rows


def median(rows, noise, start, epsilon):
    """Returns [(clients, median perplexity)]; a run that diverged is infinite."""
    found = {}
    for r in rows:
        if (r["noise"], r["start"], r["epsilon"]) == (noise, start, epsilon):
            found.setdefault(int(r["clients"]), []).append(float(r["last_test"] or "inf"))
    return [(n, statistics.median_high(v)) for n, v in sorted(found.items())]


def table(o, rows):
    numbers = sorted({int(r["clients"]) for r in rows})
    out = ["| start | epsilon | noise | " + " | ".join("{:,}".format(n) for n in numbers) + " |",
           "|---" * (3 + len(numbers)) + "|"]
    for start in STARTS:
        for epsilon in sorted({r["epsilon"] for r in rows} - {"inf"}, key=float, reverse=True):
            for noise in NOISES[1:]:
                line = median(rows, noise, start, epsilon)
                out += [table_row(o, numbers, line, start, epsilon, noise)] if line else []
        line = median(rows, "none", start, "inf")
        out += [table_row(o, numbers, line, start, "-", "no noise")] if line else []
    with open(os.path.join(o.out, "table.md"), "w") as f:
        f.write("\n".join(out) + "\n")


def table_row(o, numbers, line, *names):
    found = {n: "%.1f" % p if p < o.kind["worst"] else "lost" for n, p in line}
    return "| " + " | ".join(list(names) + [found.get(n, "-") for n in numbers]) + " |"


def main():
    o = options()
    if not o.table:
        o.commit = dict(line.split(None, 1) for line in run([o.sefl, "version"]).splitlines()
                        if " " in line).get("commit", "")
        texts(o)
    rows = merge(o, [] if o.table else [point(o, *cell) for cell in cells(o)])
    table(o, rows)


main()
