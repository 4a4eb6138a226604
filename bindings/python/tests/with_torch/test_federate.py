"""sefl.torch.federate over the stand-in library."""
from __future__ import annotations

import array
import logging
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import FOLDER, use_standin

use_standin()
import torch  # noqa: E402

import sefl.torch  # noqa: E402
from sefl import safetensors  # noqa: E402

logging.getLogger("sefl").addHandler(logging.NullHandler())
CONFIG = __file__


class Small(torch.nn.Module):
    """The tensors of the stand-in's task, and others that stay local."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2, dtype=dtype)
        self.fc.bias = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        self.scale = torch.nn.Parameter(torch.tensor(1.0, dtype=dtype))
        self.register_buffer("steps", torch.tensor(0))


class Federate(unittest.TestCase):
    def rounds(self, model: torch.nn.Module, **options: object) -> list[torch.Tensor]:
        seen = []

        def train(m: torch.nn.Module, r: sefl.Round) -> int:
            self.assertIs(m, model)
            seen.append(m.fc.weight.detach().clone())
            with torch.no_grad():
                m.fc.weight += torch.arange(6.0).view(2, 3)
                m.fc.bias += 1
                m.scale += 1  # not trained by the task
            return 7

        self.assertIs(sefl.torch.federate(model, train, CONFIG, **options), model)
        return seen

    def test_rounds(self) -> None:
        model = Small()
        seen = self.rounds(model)
        for n, weight in enumerate(seen):
            torch.testing.assert_close(weight, n * torch.arange(6.0).view(2, 3))
        self.assertEqual(len(seen), 3)
        self.assertEqual(float(model.scale), 1)  # the task's 0, and the last round's 1
        self.assertTrue(model.fc.weight.requires_grad)
        self.assertFalse(model.scale.requires_grad)

    def test_other_types(self) -> None:
        for dtype in (torch.float64, torch.bfloat16):
            seen = self.rounds(Small(dtype))
            self.assertEqual(seen[2].tolist(), (2 * torch.arange(6.0).view(2, 3)).tolist())

    def test_trainable(self) -> None:
        self.rounds(Small(), trainable=lambda name: name.startswith("fc."))
        with self.assertRaisesRegex(ValueError, 'trains "fc.bias", but'):
            self.rounds(Small(), trainable=lambda name: name == "fc.weight")
        with self.assertRaisesRegex(ValueError, 'does not train "scale", but'):
            self.rounds(Small(), trainable=lambda name: True)

    def test_other_models(self) -> None:
        for model, text in (
            (torch.nn.Linear(3, 2), 'task has a tensor "fc.weight", which the module lacks'),
            (_wider(), r'"fc.weight" has the shape \(2, 4\)'),
            (_more(), 'the module has a tensor "more.weight", which the task lacks'),
        ):
            with self.assertRaisesRegex(ValueError, text):
                self.rounds(model)

    def test_files(self) -> None:
        model, other = Small(torch.float64), Small()
        sefl.torch.save(model, FOLDER / "start")
        self.assertIs(sefl.torch.restore(other, FOLDER / "start"), other)
        torch.testing.assert_close(other.fc.weight, model.fc.weight.float())
        self.assertEqual(sefl.torch.only(model, lambda name: name != "scale"), "fc.weight,fc.bias")
        with self.assertRaisesRegex(ValueError, "which the task lacks"):
            sefl.torch.restore(_more(), FOLDER / "start")

    def test_compressed_file(self) -> None:
        model = torch.nn.Linear(3, 2, bias=False)
        values = array.array("f", [1, 2, 3, 4, 5])  # a block of 2 x 2, one of 2 x 1
        safetensors.write(FOLDER / "blocks", {"weight": values}, {"blocks": "weight=2x3/2"})
        sefl.torch.restore(model, FOLDER / "blocks")
        self.assertEqual(model.weight.tolist(), [[1, 2, 4], [2, 3, 5]])
        safetensors.write(FOLDER / "blocks", {"weight": values}, {"blocks": "weight=2x3"})
        with self.assertRaisesRegex(ValueError, "NAME=ROWSxCOLUMNS/BLOCK"):
            sefl.torch.restore(model, FOLDER / "blocks")

    def test_state(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
        model[2].weight = model[0].weight  # shared: once
        names = set(sefl.torch.state(model))
        self.assertEqual(
            names,
            {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "2.bias"},
        )


def _wider() -> Small:
    model = Small()
    model.fc.weight = torch.nn.Parameter(torch.zeros(2, 4))
    return model


def _more() -> Small:
    model = Small()
    model.more = torch.nn.Linear(1, 1, bias=False)
    return model


if __name__ == "__main__":
    unittest.main()
