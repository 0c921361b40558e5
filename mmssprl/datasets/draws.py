"""Draws of a training: numbered, seeded one by one, and begun anywhere.

The order of the images is taken from mmengine's sampler, which follows from the seed, but is begun
at the sample that comes next, and nothing is loaded on the way there. Each sample is transformed
with generators that are seeded for it alone, wherever it is loaded.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.dataset import InfiniteSampler
from mmengine.dist import get_dist_info
from mmengine.registry import DATA_SAMPLERS, DATASETS
from torch.utils.data import BatchSampler, Dataset, Sampler


class Draw(NamedTuple):
    """An index into a data set, with what decides the randomness of its transforms."""

    seed: int
    epoch: int
    sample: int


def seed_generators(entropy: Sequence[int], *, on_device: bool) -> None:
    """Seed the generators of Python, numpy and torch by numbers >= 0, on the devices too or not."""
    words = np.random.SeedSequence(entropy).generate_state(4).tolist()
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002  what the transforms of OpenMMLab draw from
    seed = words[2] << 32 | words[3]
    if on_device:
        torch.manual_seed(seed)
    else:  # without the devices, whose generators a loader's worker must not touch
        torch.default_generator.manual_seed(seed)


class SeededSamples(Dataset):
    """A data set, given itself or by its config, whose transforms are seeded for each sample."""

    takes_draws = True

    def __init__(self, dataset: Any) -> None:
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, Mapping) else dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, draw: Draw) -> Any:
        seed_generators(draw, on_device=False)
        return self.dataset[draw.sample]

    def get_data_info(self, draw: Draw) -> Any:
        """Return what the data set knows of a sample; mmdet's batch samplers ask for it."""
        return self.dataset.get_data_info(draw.sample)

    def __getattr__(self, name: str) -> Any:
        # Not there yet, as in a copy of this object; or a protocol that would go around the seeds.
        if name == "dataset" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


class DrawSampler(Sampler):
    """A sampler of mmengine, given by its config, that begins at this rank's ``start``."""

    def __init__(self, dataset: Any, sampler: Mapping[str, Any], seed: int | None = None) -> None:
        self.dataset = dataset
        defaults = {"dataset": dataset, "seed": seed}
        self.sampler = DATA_SAMPLERS.build(sampler, default_args=defaults)
        self.seed = self.sampler.seed if seed is None else seed
        self.start = 0
        self._epoch = 0

    @property
    def is_endless(self) -> bool:
        """Whether one pass lasts for the whole training."""
        return isinstance(self.sampler, InfiniteSampler)

    def set_epoch(self, epoch: int) -> None:
        """Give this epoch its own order."""
        self._epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def set_seed(self, seed: int) -> None:
        """Take over the seed of the run that is resumed, if its config leaves it to chance."""
        self.seed = self.sampler.seed = seed

    def __iter__(self) -> Iterator[Draw | int]:
        rank, world_size = get_dist_info()
        takes_draws = getattr(self.dataset, "takes_draws", False)
        for place, index in islice(enumerate(self.sampler), self.start, None):
            # Of an endless sampler a pass over the data is an epoch.
            epoch = self._epoch + (place * world_size + rank) // len(self.dataset)
            yield Draw(self.seed, epoch, index) if takes_draws else index

    def __len__(self) -> int:
        return len(self.sampler)


class LateBatches(BatchSampler):
    """Batches of a batch sampler, which may depend on all indices before, but ``start`` of them."""

    def __init__(self, sampler: Sampler, batch_size: int, batch_sampler: Mapping) -> None:
        defaults = {"sampler": sampler, "batch_size": batch_size}
        self.batches = DATA_SAMPLERS.build(batch_sampler, default_args=defaults)
        super().__init__(sampler, batch_size, drop_last=False)
        self.start = 0

    def __iter__(self) -> Iterator[list]:
        return islice(iter(self.batches), self.start, None)

    def __len__(self) -> int:
        return len(self.batches)


def with_draws(loader: Any, *, seeds_itself: bool) -> Any:
    """Return the config of a training's loader with ``DrawSampler`` and ``SeededSamples``.

    The latter is left out if the data set's samples follow from (seed, epoch, index) already.
    """
    if not isinstance(loader, Mapping) or not isinstance(loader.get("sampler"), Mapping):
        return loader
    loader = dict(loader)
    loader["sampler"] = {"type": DrawSampler, "sampler": loader["sampler"]}
    if loader.get("batch_sampler") is not None:
        loader["batch_sampler"] = {"type": LateBatches, "batch_sampler": loader["batch_sampler"]}
    if not seeds_itself:
        loader["dataset"] = {"type": SeededSamples, "dataset": loader["dataset"]}
    return loader
