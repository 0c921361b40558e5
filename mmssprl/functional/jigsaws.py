"""Jigsaws: shuffled squares from the cells of a grid on an image (DetCo, arXiv:2102.04803).

Legend: B images, P = grid^2 squares of a jigsaw, px side of a crop, q side of a square.
"""

import torch
from torch import Tensor


def cut_jigsaws(
    crops: Tensor, grid: int, square_px: int, *, seed: int, skip: int = 0, num_drawn: int
) -> Tensor:
    """Cut a random square out of each cell of crops (B, 3, px, px), in random order of the cells.

    ``seed`` determines the draws, which are made for ``num_drawn`` images. The crops use those
    after the first ``skip``, so several ranks cut the same squares as one process would. Returns
    (B, P, 3, q, q).
    """
    cell = crops.shape[-1] // grid
    generator = torch.Generator().manual_seed(seed)
    shape = (num_drawn, grid**2)
    order = torch.rand(shape, generator=generator).argsort(dim=1)
    inside = torch.randint(cell - square_px + 1, (2, *shape), generator=generator)
    corner = cell * torch.stack([order // grid, order % grid]) + inside  # (2, num_drawn, P)

    num_images = len(crops)
    places = corner[:, skip : skip + num_images, :, None] + torch.arange(square_px)
    rows, columns = places.to(crops.device, non_blocking=True)  # each (B, P, q)
    image = torch.arange(num_images, device=crops.device)[:, None, None, None]
    # (B, px, px, 3) -> (B, P, q, q, 3) -> (B, P, 3, q, q)
    return crops.movedim(1, -1)[image, rows[..., None], columns[:, :, None]].movedim(-1, 2)


def join_squares(jigsaws: Tensor) -> Tensor:
    """Join the squares (..., P, 3, q, q) of each jigsaw to an image (..., 3, px, px)."""
    side = round(jigsaws.shape[-4] ** 0.5)
    grid = jigsaws.unflatten(-4, (side, side))  # (..., grid, grid, 3, q, q)
    return grid.movedim(-3, -5).transpose(-3, -2).flatten(-2).flatten(-3, -2)
