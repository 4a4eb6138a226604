"""The tensors of a task and of a model."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

Shape = tuple[int, ...]


def only_text(names: Iterable[str], trainable: Callable[[str], bool]) -> str:
    """Returns the setting `training.only` of a task: the names of the trainable tensors."""
    chosen = [name for name in names if trainable(name)]
    if not chosen:
        raise ValueError("no tensor is trainable")
    return ",".join(chosen)


def check_shapes(task: Mapping[str, Shape], mine: Mapping[str, Shape], what: str) -> None:
    """ValueError, with the names, unless the task's tensors are those of a model."""
    for name, shape in task.items():
        if name not in mine:
            raise ValueError(f'the task has a tensor "{name}", which {what} lacks')
        if mine[name] != shape:
            raise ValueError(f'"{name}" has the shape {mine[name]} in {what}, {shape} in the task')
    for name in mine:
        if name not in task:
            raise ValueError(f'{what} has a tensor "{name}", which the task lacks')


def parse_blocks(text: str) -> dict[str, tuple[int, int, int]]:
    """Reads the metadata `blocks` of a model file, such as "fc.weight=10x784/32": rows, columns and
    block size of each block-Hankel matrix."""
    out = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        try:
            name, shape = item.rsplit("=", 1)
            sides, block = shape.split("/")
            rows, cols = sides.split("x")
            out[name] = (int(rows), int(cols), int(block))
        except ValueError:
            raise ValueError(f"blocks: {item!r} is not NAME=ROWSxCOLUMNS/BLOCK") from None
    return out
