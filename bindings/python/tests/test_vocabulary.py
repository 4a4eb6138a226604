"""BPE vocabularies in Python: the tokens of `sefl data tokenize` (SEFL is the path of the program). Needs no PyTorch."""
from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import unittest

from support import FOLDER, PACKAGE

spec = importlib.util.spec_from_file_location("vocabulary", PACKAGE / "sefl" / "torch" / "vocabulary.py")
vocabulary = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vocabulary)
SEFL = os.environ.get("SEFL")


def shown(token: bytes) -> str:
    plain = "".join(chr(c) if 32 < c < 127 and c not in b"\\_" else "_" if c == 32 else f"\\x{c:02x}" for c in token)
    return plain


class Bpe(unittest.TestCase):
    path = FOLDER / "bpe.txt"

    def put(self, *merged: bytes, n: int | None = None, skip: int = -1) -> None:
        tokens = [bytes([c]) for c in range(256) if c != skip] + list(merged)
        lines = [f"{shown(t)}\t{i}" for i, t in enumerate(tokens)] + ["<eos>\t-"]
        self.path.write_text(f"sefl-bpe 1 {n or len(lines)}\n" + "\n".join(lines) + "\n")

    def test_tokens(self) -> None:
        self.put(b"lo", b"low", b" low", b"er", "ü".encode())
        v = vocabulary.Vocabulary.read(self.path)
        self.assertEqual((len(v), v.unk, v.words[v.eos]), (262, None, b"<eos>"))
        self.assertEqual([v.words[i] for i in v.encode("lower low, Mü")],
                         [b"low", b"er", b" low", b",", b" ", b"M", "ü".encode()])
        self.assertEqual(v.encode("a  \n\nb ").count(v.eos), 2)
        self.assertEqual(v.decode(v.encode("lower „Müller“\n x_\\")), "lower „Müller“\n x_\\")
        self.assertEqual(v.decode([0xC3]), "\ufffd")

    def test_refused(self) -> None:
        for put in (dict(n=300), dict(skip=7)):
            self.put(b"ab", **put)
            with self.assertRaises(ValueError):
                vocabulary.Vocabulary.read(self.path)

    @unittest.skipUnless(SEFL, "SEFL is not set")
    def test_as_sefl(self) -> None:
        source = random.Random(1)
        parts = ["the ", "Müller", " ", "  ", "\t", "12", ", ", "„", "…", "\u3000", "aaa", "é", "µ", "\n", "_\\x", "— "]
        text = "".join(source.choice(parts) for _ in range(4000)) + "—" * 200 + "ü" * 200 + " " * 300 + "x 1" + "2" * 300
        raw, tokens = FOLDER / "raw.txt", FOLDER / "v.txt"
        raw.write_bytes(text.encode())
        subprocess.run([SEFL, "data", "vocab", raw, "--kind", "bpe", "--size", "330", "--out", tokens],
                       check=True, stdout=subprocess.DEVNULL)
        v = vocabulary.Vocabulary.read(tokens)
        said = subprocess.run([SEFL, "data", "tokenize", raw, "--vocab", tokens, "--ids"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        for line, numbers in zip(text.split("\n"), said.split("\n")):
            self.assertEqual(v.encode(line), [int(i) for i in numbers.split()], line)
        said = subprocess.run(["sha256sum", tokens], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(v.sha256(), said.split()[0])


if __name__ == "__main__":
    unittest.main()
