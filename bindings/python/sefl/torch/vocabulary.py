"""The vocabulary of a built-in model: words, or byte-level BPE tokens."""
from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence


class Vocabulary:
    """Words and their numbers. A missing <unk> or <eos> comes first, as in SEFL."""

    unk: int | None  # None: no word is unknown

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self.words[:0] = [w for w in ("<unk>", "<eos>") if w not in self.words]
        self._numbers = {word: i for i, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            raise ValueError("a word occurs twice in the vocabulary")
        self.unk, self.eos = self._numbers["<unk>"], self._numbers["<eos>"]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Reads a word list (one word per line, optionally with a tab and a count) or a BPE vocabulary."""
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
        if lines and lines[0][0].startswith("sefl-bpe "):
            return BpeVocabulary(lines[0][0], lines[1:])
        return cls(line[0] for line in lines)

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


_MARK = rb"(?:\xc2[\xa1-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf]|\xe2[\x80\x81][\x80-\xbf]|\xe3\x80[\x80-\xbf])"
_LETTER = rb"(?:(?!" + _MARK + rb")[A-Za-z\x80-\xff])"
_OTHER = rb"(?:" + _MARK + rb"|[^A-Za-z0-9\s\x80-\xff])"
_PIECE = re.compile(
    rb" %b{1,127}|%b{1,128}| [0-9]{1,127}|[0-9]{1,128}| ?%b+|\s{1,128}" % (_LETTER, _LETTER, _OTHER))


def _pieces(text: bytes) -> Iterable[bytes]:
    """Splits bytes as src/learn/text/bpe.h says: at most 128 bytes, no token crosses a piece."""
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        assert match  # every byte is a letter, a digit, white space or another character
        end = match.end()
        if text[at:end].isspace():
            if end - at > 1 and end < len(text) and text[end - 1] == 32 and not text[end : end + 1].isspace():
                end -= 1  # the last space belongs to the next piece
        elif end - at > 128:  # marks of one to three bytes
            marks = re.finditer(_OTHER, text[at:end])
            end = at + max(m.end() for m in marks if m.end() <= 128)
        yield text[at:end]
        at = end


class BpeVocabulary(Vocabulary):
    """Byte-level sub-word tokens; `words` are bytes. Every text has tokens, so there is no <unk>."""

    def __init__(self, head: str, lines: Sequence[Sequence[str]]) -> None:
        if not re.fullmatch(r"sefl-bpe 1 [1-9][0-9]*", head) or int(head.split()[2]) != len(lines):
            raise ValueError("not a whole BPE vocabulary of version 1")
        self._text = head + "\n" + "".join(f"{line[0]}\t{line[1]}\n" for line in lines)
        self.words = [_unshown(line[0]) for line in lines]  # type: ignore[assignment]
        self._numbers = {word: i for i, word in enumerate(self.words)}
        self._ranks = {w: int(line[1]) for w, line in zip(self.words, lines) if line[1] != "-"}
        self.unk, self.eos = None, self._numbers.get(b"<eos>", -1)  # type: ignore[call-overload]
        bytes_ = all(self._ranks.get(bytes([c])) == c for c in range(256))  # type: ignore[call-overload]
        if not bytes_ or self.eos < 0 or sorted(self._ranks.values()) != list(range(len(lines) - 1)):
            raise ValueError("the BPE vocabulary lacks a byte, <eos> or a rank, or has one twice")
        self._known: dict[bytes, list[int]] = {}

    def sha256(self) -> str:
        return hashlib.sha256(self._text.encode()).hexdigest()

    def _encode_piece(self, piece: bytes) -> list[int]:
        if piece in self._ranks:
            return [self._numbers[piece]]  # type: ignore[index]
        parts = [piece[i : i + 1] for i in range(len(piece))]
        while True:
            pairs = [self._ranks.get(a + b, len(self.words)) for a, b in zip(parts, parts[1:])]
            if not pairs or min(pairs) == len(self.words):
                return [self._numbers[part] for part in parts]  # type: ignore[index]
            at = pairs.index(min(pairs))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

    def encode(self, text: str) -> list[int]:
        """As for words; SEFL drops white space at the end of a line."""
        out: list[int] = []
        *lines, last = text.split("\n")
        for i, line in enumerate([*(line.rstrip() for line in lines), last]):
            for piece in _pieces(line.encode(errors="surrogateescape")):
                if piece not in self._known:
                    self._known[piece] = self._encode_piece(piece)
                out += self._known[piece]
            if i < len(lines):
                out.append(self.eos)
        return out

    def decode(self, numbers: Iterable[int]) -> str:
        """As for words; a character that is not complete becomes U+FFFD."""
        text = b"".join(b"\n" if i == self.eos else self.words[i] for i in numbers)  # type: ignore[misc]
        return text.decode(errors="replace")


def _unshown(shown: str) -> bytes:
    """A token as a vocabulary file shows it: _ is a space, \\xHH a byte."""
    text = re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), shown.replace("_", " "))
    return text.encode("latin-1")
