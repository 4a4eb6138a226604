"""sefl.numpy over the stand-in library; skipped without NumPy (make test-torch installs it)."""
from __future__ import annotations

import logging
import unittest

from support import FOLDER, use_standin

use_standin()
try:
    import numpy as np

    import sefl.numpy
except ImportError:
    np = None
import sefl  # noqa: E402

logging.getLogger("sefl").addHandler(logging.NullHandler())
CONFIG = __file__


@unittest.skipIf(np is None, "NumPy is not installed")
class Numpy(unittest.TestCase):
    def test_federate(self) -> None:
        seen = []

        def train(arrays: dict[str, np.ndarray], r: sefl.Round) -> int:
            seen.append(arrays["fc.weight"].copy())
            arrays["fc.weight"] += np.arange(6, dtype=np.float32).reshape(2, 3)
            return 5

        model = sefl.numpy.federate(train, CONFIG, settings={"rounds": 2})
        np.testing.assert_array_equal(seen[1], [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(model["fc.weight"], [[0, 2, 4], [6, 8, 10]])
        self.assertEqual(model["scale"].shape, ())

    def test_submit(self) -> None:
        with sefl.Client(CONFIG) as client:
            r = client.wait()
            arrays = sefl.numpy.arrays(r)
            self.assertTrue(np.shares_memory(arrays["fc.bias"], np.asarray(r.values)))
            weight = np.arange(6, dtype=np.float64).reshape(3, 2).T  # neither float32 nor contiguous
            sefl.numpy.submit(r, {"fc.weight": weight, "fc.bias": [9], "scale": 4})
            np.testing.assert_array_equal(client.wait().values, [0, 2, 4, 1, 3, 5, 9, 4])

    def test_plain_submit(self) -> None:
        with sefl.Client(CONFIG) as client:
            client.wait().submit(np.arange(8, dtype=np.float32))
            r = client.wait()
            np.testing.assert_array_equal(np.asarray(r["fc.weight"]), [[0, 1, 2], [3, 4, 5]])
            with self.assertRaisesRegex(TypeError, "float32"):
                r.submit(np.zeros(8))

    def test_files(self) -> None:
        model = {"a.w": np.ones((2, 3)), "a.b": np.zeros(2), "s": np.float32(7)}
        sefl.numpy.save(model, FOLDER / "start")
        for name, array in sefl.numpy.load(FOLDER / "start").items():
            self.assertEqual(array.dtype, np.float32)
            np.testing.assert_array_equal(array, model.pop(name))
        self.assertEqual(model, {})

    def test_only(self) -> None:
        self.assertEqual(sefl.numpy.only(["a.w", "a.b", "s"], lambda n: n.startswith("a.")), "a.w,a.b")
        with self.assertRaisesRegex(ValueError, "no tensor"):
            sefl.numpy.only(["a"], lambda name: False)


if __name__ == "__main__":
    unittest.main()
