"""The word list of a built-in model."""
from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable


class Vocabulary:
    """Words and their numbers. A missing <unk> or <eos> comes first, as in SEFL."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self.words[:0] = [w for w in ("<unk>", "<eos>") if w not in self.words]
        self._numbers = {word: i for i, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            raise ValueError("a word occurs twice in the vocabulary")
        self.unk, self.eos = self._numbers["<unk>"], self._numbers["<eos>"]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Reads a word list: one word per line, optionally with a tab and a count."""
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return cls(line.rstrip("\n").split("\t")[0] for line in file)

    def __len__(self) -> int:
        return len(self.words)

    def sha256(self) -> str:
        """The hash that a model file records."""
        text = "".join(word + "\n" for word in self.words)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Returns the numbers of the words; each line but an unfinished last one ends with <eos>."""
        out: list[int] = []
        for line in text.splitlines(keepends=True):
            out += [self._numbers.get(word, self.unk) for word in line.split()]
            if line.endswith("\n"):
                out.append(self.eos)
        return out

    def decode(self, numbers: Iterable[int]) -> str:
        """Returns the text of word numbers; <eos> becomes a line break."""
        text = " ".join("\n" if i == self.eos else self.words[i] for i in numbers)
        return text.replace(" \n ", "\n").replace(" \n", "\n").replace("\n ", "\n")
