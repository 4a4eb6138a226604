"""safetensors files: what is written can be read, and damaged files are refused."""
from __future__ import annotations

import array
import json
import unittest

from support import FOLDER

from sefl import safetensors


class Files(unittest.TestCase):
    path = FOLDER / "some.safetensors"

    def put(self, header: object, data: bytes = b"", length: int | None = None) -> None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        size = len(text) if length is None else length
        self.path.write_bytes(size.to_bytes(8, "little") + text + data)

    def test_round_trip(self) -> None:
        matrix = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
        safetensors.write(
            self.path, {"m": matrix, "empty": array.array("f"), "v": array.array("f", [7])}, {"a": "b"}
        )
        tensors, metadata = safetensors.read(self.path)
        self.assertEqual(metadata, {"a": "b"})
        self.assertEqual({n: t.tolist() for n, t in tensors.items()},
                         {"m": [[0, 1, 2], [3, 4, 5]], "empty": [], "v": [7]})
        tensors["m"][1, 2] = 9  # writable
        self.assertEqual(list(self.path.parent.glob("*.tmp")), [])

    def test_malformed(self) -> None:
        good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        cases = [
            ({"t": {**good, "dtype": "F16"}}, "F16"),
            ({"t": {**good, "shape": [3]}}, "does not fit"),
            ({"t": {**good, "shape": [-2]}}, "does not fit"),
            ({"t": {**good, "data_offsets": [4, 12]}}, "does not fit"),
            ({"t": {**good, "data_offsets": [8, 0]}}, "does not fit"),
            ({"t": {**good, "data_offsets": [0]}}, "malformed"),
            ({"t": {**good, "shape": ["x"]}}, "malformed"),
            ({"t": 1}, "malformed"),
            ([], "not an object"),
            (b"{", "not JSON"),
        ]
        for header, text in cases:
            with self.subTest(header=header), self.assertRaisesRegex(ValueError, text):
                self.put(header, bytes(8))
                safetensors.read(self.path)
        for length in (10**9, 1 << 63):
            with self.assertRaisesRegex(ValueError, "not a safetensors file"):
                self.put({}, length=length)
                safetensors.read(self.path)
        self.path.write_bytes(b"123")
        with self.assertRaisesRegex(ValueError, "not a safetensors file"):
            safetensors.read(self.path)


if __name__ == "__main__":
    unittest.main()
