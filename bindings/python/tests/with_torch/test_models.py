"""The built-in models in PyTorch compute what `sefl` computes: SEFL is the path of the program."""
from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support  # noqa: F401 (finds the package)
import torch
from torch.nn import functional as F

import sefl.torch
from sefl.torch import hankel

SEFL = os.environ.get("SEFL")
torch.set_num_threads(1)


def sefl_program(*arguments: object) -> str:
    return subprocess.run(
        [SEFL, *map(str, arguments)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ).stdout


def columns(words: list[int], n: int) -> torch.Tensor:
    """The text in n columns, without the remainder: (rows, n)."""
    rows = len(words) // n
    return torch.tensor(words[: rows * n]).view(n, rows).t()


def batches(text: torch.Tensor, steps: int = 35):
    for at in range(0, len(text) - 1, steps):
        n = min(steps, len(text) - 1 - at)
        yield text[at : at + n], text[at + 1 : at + 1 + n]


def perplexity(model: sefl.torch.WordModel, words: list[int]) -> float:
    """As `sefl model eval`."""
    state, total, count = None, 0.0, 0
    with torch.no_grad():
        for x, y in batches(columns(words, 10)):
            out, state = model(x, state)
            total += float(F.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="sum"))
            count += y.numel()
    return math.exp(total / count)


def train_epoch(model: sefl.torch.WordModel, text: torch.Tensor, lr: float, clip: float) -> float:
    """As an epoch of `sefl train`; returns the mean loss."""
    model.train()
    state, total, count = None, 0.0, 0
    for x, y in batches(text):
        model.zero_grad()
        state = None if state is None else tuple(s.detach() for s in state)
        out, state = model(x, state)
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
        total, count = total + float(loss) * y.numel(), count + y.numel()
    model.eval()
    return total / count


@unittest.skipUnless(SEFL, "SEFL is not set")
class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        cls.text = cls.folder / "text"
        sefl_program("synth", "--out", cls.text)
        lines = (cls.text / "train.txt").read_text().splitlines(keepends=True)
        cls.small = cls.folder / "small"  # one batch is an epoch: 20 columns of 36 words
        cls.small.mkdir()
        kept, words = [], 0
        while words < 720:
            kept.append(lines[len(kept)])
            words += len(kept[-1].split()) + 1
        (cls.small / "train.txt").write_text("".join(kept))
        for name in ("valid.txt", "test.txt"):
            (cls.small / name).write_bytes((cls.text / name).read_bytes())

    @classmethod
    def tearDownClass(cls) -> None:
        cls._folder.cleanup()

    def train(self, name: str, text: Path, *more: object) -> tuple[Path, list[dict[str, float]]]:
        out = self.folder / name
        said = sefl_program(
            "train", "--data", text, "--out", out, "--json", "--threads", 1, "--vocab", self.text / "vocab.txt",
            "--set", "model.embed=24", "--set", "model.hidden=20", "--set", "training.dropout=0",
            "--set", "training.lr_decay=1", *more)
        return out, [json.loads(line) for line in said.splitlines()]

    def words(self, model: sefl.torch.WordModel, path: Path) -> list[int]:
        return model.vocabulary.encode(path.read_text())

    def test_evaluation(self) -> None:
        for name, more in {
            "lstm-8": ("--block", 8), "lstm-1": ("--block", 1),
            "lstm-tied": ("--block", 7, "--set", "model.tied=true", "--set", "model.hidden=24"),
            "transformer-8": ("--model", "transformer", "--block", 8),
            "blocks": ("--block", 4, "--set", "model.block_embed=16", "--set", "model.block_decoder=1"),
        }.items():
            with self.subTest(name):
                out, _ = self.train(name, self.text, "--max-steps", 20, *more)
                file, words = out / "model.safetensors", out / "vocab.txt"
                sefl_program("model", "export", file, "--out", out / "dense.safetensors")
                wanted = json.loads(
                    sefl_program("model", "eval", file, "--vocab", words, "--data", self.text, "--json"))
                models = [sefl.torch.load(file, words), sefl.torch.load(file, words, compressed=True),
                          sefl.torch.load(out / "dense.safetensors", words)]
                for model in models:
                    got = perplexity(model, self.words(model, self.text / "valid.txt"))
                    self.assertAlmostEqual(got / wanted["perplexity"], 1, delta=1e-5)
                for tensor_name, tensor in models[2].dense_state().items():
                    for model in models[:2]:
                        self.assertTrue(torch.equal(model.dense_state()[tensor_name], tensor))

    def test_generate(self) -> None:
        out, _ = self.train("generate", self.text, "--max-steps", 20, "--block", 8)
        model = sefl.torch.load(out / "model.safetensors", out / "vocab.txt")
        text = model.generate("the", words=30, seed=3)
        self.assertEqual(len(model.vocabulary.encode(text)), 30)
        self.assertNotIn("<unk>", text)
        self.assertEqual(text, model.generate("the", words=30, seed=3))
        self.assertNotEqual(text, model.generate("the", words=30, seed=4))
        with self.assertRaisesRegex(ValueError, "with its vocabulary"):
            sefl.torch.load(out / "model.safetensors").generate("the")
        with self.assertRaisesRegex(ValueError, "another vocabulary"):
            swapped = sefl.torch.Vocabulary(model.vocabulary.words[::-1])
            sefl.torch.load(out / "model.safetensors", swapped)

    def test_bpe(self) -> None:
        out = self.folder / "bpe"
        sefl_program("train", "--data", self.text, "--out", out, "--max-steps", 20, "--block", 8,
                     "--set", "vocab.kind=bpe", "--set", "data.vocab_words=400", "--set", "model.embed=24",
                     "--set", "model.hidden=20")
        file, words = out / "model.safetensors", out / "vocab.txt"
        model = sefl.torch.load(file, words)
        wanted = json.loads(sefl_program("model", "eval", file, "--vocab", words, "--data", self.text, "--json"))
        got = perplexity(model, self.words(model, self.text / "valid.txt"))
        self.assertAlmostEqual(got / wanted["perplexity"], 1, delta=1e-5)
        self.assertEqual(model.generate("the Müller,", words=9, seed=3), model.generate("the Müller,", words=9, seed=3))

    def start(self, text: Path, *more: object) -> tuple[Path, Path]:
        """The untrained model of a run: a learning rate that changes nothing."""
        out, _ = self.train(f"start-{text.name}", text, "--max-steps", 1, "--lr", "1e-30", *more)
        return out / "model.safetensors", out / "vocab.txt"

    def test_fifty_losses(self) -> None:
        model = sefl.torch.load(*self.start(self.small, "--block", 8), compressed=True)
        _, epochs = self.train("fifty", self.small, "--block", 8, "--epochs", 50, "--lr", 5)
        text = columns(self.words(model, self.small / "train.txt"), 20)
        self.assertLessEqual(len(text), 36)
        wanted = [e["train_loss"] for e in epochs if "train_loss" in e]
        self.assertEqual(len(wanted), 50)
        losses = [train_epoch(model, text, 5, 0.25) for _ in wanted]
        worst = max(abs(a - b) for a, b in zip(losses, wanted))
        print(f"\n50 losses: from {losses[0]:.3f} to {losses[-1]:.3f}, at most {worst:.1e} apart")
        self.assertLess(worst, 1e-4)

    def test_epoch(self) -> None:
        # At a learning rate of 20 this small model amplifies rounding errors to 9 % in an epoch.
        model = sefl.torch.load(*self.start(self.text, "--block", 8), compressed=True)
        _, epochs = self.train("epoch", self.text, "--block", 8, "--epochs", 1, "--lr", 5)
        train_epoch(model, columns(self.words(model, self.text / "train.txt"), 20), 5, 0.25)
        got = perplexity(model, self.words(model, self.text / "valid.txt"))
        wanted = epochs[0]["valid_perplexity"]
        print(f"\nperplexity after {epochs[0]['steps']} steps: {got:.4f}, sefl train {wanted:.4f}")
        self.assertAlmostEqual(got / wanted, 1, delta=0.01)


class Hankel(unittest.TestCase):
    def test_index(self) -> None:
        self.assertEqual(
            hankel.index(3, 5, 2).tolist(),
            [[0, 1, 3, 4, 6], [1, 2, 4, 5, 7], [8, 9, 10, 11, 12]])
        self.assertEqual(hankel.count(33278, 200, 32), 433666)  # src/core/layout/bhm/bhm.h
        self.assertEqual(hankel.index(2, 3, 1).flatten().tolist(), list(range(6)))

    def test_project(self) -> None:
        place = hankel.index(7, 9, 4)
        values = torch.randn(hankel.count(7, 9, 4))
        self.assertTrue(torch.equal(hankel.project(values[place], place), values))
        dense = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
        self.assertEqual(hankel.project(dense, hankel.index(2, 2, 2)).tolist(), [1, 3, 8])


if __name__ == "__main__":
    unittest.main()
