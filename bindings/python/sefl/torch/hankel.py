"""Block-Hankel matrices (src/core/layout/bhm/bhm.h) as tensors: the matrix is tiled by blocks, and entry
(a, b) of a block reads value a + b of that block."""
from __future__ import annotations

import torch


def index(rows: int, cols: int, block: int) -> torch.Tensor:
    """Returns the (rows, cols) places of the matrix's entries in the vector of its values."""
    i, j = torch.arange(rows), torch.arange(cols)
    height = (rows - i // block * block).clamp(max=block)
    # Block row I begins after the values of the block rows above, all of full height.
    block_cols = -(-cols // block)
    row_values = cols + block_cols * (block - 1)
    begin = i // block * row_values
    # Inside it, block J begins after J blocks of full width.
    before = j // block * block
    blocks = j // block
    begin = begin[:, None] + before[None, :] + blocks[None, :] * (height[:, None] - 1)
    return begin + (i % block)[:, None] + (j % block)[None, :]


def count(rows: int, cols: int, block: int) -> int:
    """Returns the number of values."""
    return int(index(rows, cols, block)[-1, -1]) + 1


def project(dense: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Returns the values of the nearest block-Hankel matrix: means over the anti-diagonals."""
    n = int(place[-1, -1]) + 1
    flat = place.reshape(-1)
    sums = torch.zeros(n, dtype=torch.float64, device=dense.device)
    sums.index_add_(0, flat, dense.reshape(-1).double())
    return (sums / torch.bincount(flat, minlength=n)).to(dense.dtype)
