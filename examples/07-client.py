#!/usr/bin/env python3
"""A client in Python: fits the line y = a x + b to points that never leave this machine.

    07-client.py start start.safetensors                   # writes the public start of the task
    07-client.py client.yml points.csv [setting=value ...] # takes part; a row of points.csv is x,y

Replace train() with your own code. sefl.numpy and sefl.torch do the same with arrays and modules.
"""
import csv
import sys
from array import array

import sefl
from sefl import safetensors


def train(line, points, steps=20, rate=0.1):
    for _ in range(steps):
        errors = [(line[0] * x + line[1] - y, x) for x, y in points]
        line[0] -= rate * sum(e * x for e, x in errors) / len(points)
        line[1] -= rate * sum(e for e, _ in errors) / len(points)


def main(config, data, *settings):
    with open(data, newline="") as file:
        points = [(float(x), float(y)) for x, y in csv.reader(file)]
    with sefl.Client(config, settings=dict(s.split("=", 1) for s in settings)) as client:
        for r in client:
            train(r["line"], points)  # in place, in the memory of r.values
            receipt = r.submit(weight=len(points))
            print(f"round {r.number} of {r.rounds}:", receipt or "closed without this update")
        print("the task is over:", client.why)


if __name__ == "__main__":
    if sys.argv[1] == "start":
        safetensors.write(sys.argv[2], {"line": array("f", [0, 0])})
    else:
        main(*sys.argv[1:])
