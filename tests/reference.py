"""Slow float64 loops, written from the paper's equations and independent of mmssprl."""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor


def sinkhorn(scores: np.ndarray, epsilon: float, num_iters: int) -> np.ndarray:
    """Sinkhorn-Knopp on the matrix Q (K, B), float64. Scores and codes are (B, K)."""
    q = np.exp(np.asarray(scores, dtype=np.float64).T / epsilon)
    num_prototypes, num_rows = q.shape
    q /= q.sum()
    for _ in range(num_iters):
        for k in range(num_prototypes):
            q[k] /= q[k].sum() * num_prototypes
        for b in range(num_rows):
            q[:, b] /= q[:, b].sum() * num_rows
    return (q * num_rows).T


def cross_entropy(code: Tensor, cosines: Tensor, tau: float) -> Tensor:
    """CE(q, softmax(cosines / tau)) of one row, written as a sum over prototypes."""
    normaliser = sum(torch.exp(c / tau) for c in cosines)
    return -sum(
        q * torch.log(torch.exp(c / tau) / normaliser) for q, c in zip(code, cosines, strict=True)
    )


def unit(vector: Tensor) -> Tensor:
    return vector / torch.sqrt((vector * vector).sum())


def unit_rows(rows: Tensor) -> Tensor:
    return torch.stack([unit(row) for row in rows])


def nce(query: Tensor, key: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """-log of exp(q.k / T) over the sum of exp(q.x / T) for the key and all negatives x."""
    exps = [torch.exp(query @ x / temperature) for x in (key, *negatives)]
    return -torch.log(exps[0] / sum(exps))


def mean_nce(query, key, negatives, temperature, extra=None):
    """Mean of ``nce`` over rows (N, D). ``extra`` (N, J, D) are further negatives of each row."""
    total = 0.0
    for r, (q, k) in enumerate(zip(query, key, strict=True)):
        others = negatives if extra is None else torch.cat([negatives, extra[r]])
        total += float(nce(q, k, others, temperature))
    return total / len(query)


def pooled_by_loops(feature_map, box, px, cells, samples):
    """RoIAlign of a box on a map (size, size): each cell averages samples x samples points."""
    size = len(feature_map)
    x1, y1, x2, y2 = (float(v) * size / px - 0.5 for v in box)

    def at(y, x):
        if not -1 <= y <= size or not -1 <= x <= size:
            return 0.0
        y, x = (min(max(v, 0.0), size - 1.0) for v in (y, x))
        total = 0.0
        for row in {math.floor(y), math.ceil(y)}:
            for column in {math.floor(x), math.ceil(x)}:
                weight = (1 - abs(y - row)) * (1 - abs(x - column))
                total += weight * float(feature_map[row, column])
        return total

    result = torch.zeros(cells, cells, dtype=torch.float64)
    points = [(i + 0.5) / samples for i in range(samples)]
    for row in range(cells):
        for column in range(cells):
            values = [
                at(y1 + (y2 - y1) / cells * (row + v), x1 + (x2 - x1) / cells * (column + u))
                for v in points
                for u in points
            ]
            result[row, column] = sum(values) / len(values)
    return result


@dataclass
class Reference:
    """SS-PRL's loss of one step on one process."""

    prototypes: list[Tensor]  # C_s as rows (K_s, D), float64, unit norm
    correlation: list[Tensor]  # g_s as rows (K_0, K_s), float64, unit norm
    tau: float
    epsilon: float
    num_iters: int
    variant: str

    def codes(self, z: Tensor, scale: int, queue: Tensor | None) -> list[list[Tensor]]:
        """Codes [patch][image] of a view z (M, B, D), assigned together with queue rows (L, D)."""
        num_patches, num_images = z.shape[:2]
        rows = [z[m, b] for m in range(num_patches) for b in range(num_images)]
        rows += [] if queue is None else list(queue)
        scores = [self.cosines(row, scale).tolist() for row in rows]
        codes = torch.from_numpy(sinkhorn(np.array(scores), self.epsilon, self.num_iters))
        return [[codes[m * num_images + b] for b in range(num_images)] for m in range(num_patches)]

    def cosines(self, z: Tensor, scale: int) -> Tensor:
        return torch.stack([z @ c for c in self.prototypes[scale]])

    def pyramid_term(self, z: Tensor, scale: int, queue: Tensor | None) -> Tensor:
        """Eq. 2 of one scale without alpha: mean over pairs, sum over m / M_s, mean over images.

        z is (V, M, B, D). Targets come from the first two views.
        """
        num_views, num_patches, num_images = z.shape[:3]
        queues = [None, None] if queue is None else queue
        targets = [self.codes(z[a], scale, queues[a]) for a in (0, 1)]
        pairs = [(a, v) for a, v in product((0, 1), range(num_views)) if v != a]
        total = 0.0
        for a, v in pairs:
            for m in range(num_patches):
                for b in range(num_images):
                    cosines = self.cosines(z[v, m, b], scale)
                    ce = cross_entropy(targets[a][m][b], cosines, self.tau)
                    total = total + ce / num_patches / num_images
        return total / len(pairs)

    def cross_term(self, z: list[Tensor], scale: int, queue: Tensor | None) -> Tensor:
        """Eq. 3 of one scale without beta: mean over pairs and images."""
        queues = [None, None] if queue is None else queue
        targets = [self.codes(z[0][a], 0, queues[a])[0] for a in (0, 1)]
        num_patches, num_images = z[scale].shape[1:3]
        of_paper = self.variant == "paper"
        pairs = [(a, v) for a, v in product((0, 1), (0, 1)) if a == v or not of_paper]
        total = 0.0
        for a, v in pairs:
            for b in range(num_images):
                mean = 0.0
                for m in range(num_patches):
                    scores = self.cosines(z[scale][v, m, b], scale)
                    if of_paper:
                        exps = torch.exp(scores / self.tau)
                        scores = exps / exps.sum()
                    mean = mean + scores / num_patches
                cosines = torch.stack([unit(mean) @ g for g in self.correlation[scale - 1]])
                total = total + cross_entropy(targets[a][b], cosines, self.tau) / num_images
        return total / len(pairs)


def larc_step(p, g, buf, *, lr, momentum, weight_decay, trust, eps=1e-8):
    """One LARC update of one parameter in float64; returns the new parameter and buffer."""
    p, g, buf = (np.asarray(x, dtype=np.float64) for x in (p, g, buf))
    p_norm = math.sqrt((p**2).sum())
    g_norm = math.sqrt((g**2).sum())
    if p_norm > 0 and g_norm > 0:
        g = trust * p_norm / (g_norm + weight_decay * p_norm + eps) * (g + weight_decay * p)
    buf = momentum * buf + g
    return p - lr * buf, buf


def mean_over_box(values, box, height, width):
    """Mean over a box (x1, y1, x2, y2) of a map (h * w, D), bilinear between cell centres.

    Exact, because trapezoids integrate a function that is linear between breakpoints.
    """

    def weights(start, stop, length):
        low, high = sorted(min(max(float(end), 0.0), length) for end in (start, stop))
        if high - low < 1e-2:
            middle = (low + high) / 2
            low = middle - 5e-3
            high = middle + 5e-3
        centres = np.arange(length) + 0.5
        points = np.unique([low, high, *centres[(low < centres) & (centres < high)]])
        hats = (np.interp(points, centres, row) for row in np.eye(length))
        return np.array([np.trapezoid(hat, points) for hat in hats]) / (high - low)

    columns = weights(box[0], box[2], width)
    rows = weights(box[1], box[3], height)
    return np.outer(rows, columns).reshape(-1) @ values
