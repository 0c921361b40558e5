"""Samplers and data sets with reproducible samples when training resumes inside an epoch.

mmengine's sampler gives the order. A resumed run skips the samples before its start without loading
them. The random generators are seeded for each sample, whichever process loads it.
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
    """Index of a sample, with the seed and epoch of its random transforms."""

    seed: int
    epoch: int
    sample: int


def seed_generators(entropy: Sequence[int], *, on_device: bool) -> None:
    """Seed Python's, numpy's and torch's generators with numbers >= 0, on devices if asked to."""
    words = np.random.SeedSequence(entropy).generate_state(4).tolist()
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002  OpenMMLab's transforms draw from it
    seed = words[2] << 32 | words[3]
    if on_device:
        torch.manual_seed(seed)
    else:  # a loader's worker must not touch the generators of devices
        torch.default_generator.manual_seed(seed)


class SeededSamples(Dataset):
    """Wrap a data set, or its config, and seed the generators for each sample."""

    takes_draws = True

    def __init__(self, dataset: Any) -> None:
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, Mapping) else dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, draw: Draw) -> Any:
        seed_generators(draw, on_device=False)
        return self.dataset[draw.sample]

    def example_at(self, index: int) -> Any:
        """Return a sample with the same seed in every call."""
        return self[Draw(0, 0, index)]

    def get_data_info(self, draw: Draw) -> Any:
        """Return the data set's info of a sample, for mmdet's batch samplers."""
        return self.dataset.get_data_info(draw.sample)

    def __getattr__(self, name: str) -> Any:
        # A copy has no ``dataset`` yet, and special methods of the data set would skip the seeding.
        if name == "dataset" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


class DrawSampler(Sampler):
    """Build a sampler of mmengine from its config and begin at this rank's sample ``start``."""

    def __init__(self, dataset: Any, sampler: Mapping[str, Any], seed: int | None = None) -> None:
        self.dataset = dataset
        defaults = {"dataset": dataset, "seed": seed}
        self.sampler = DATA_SAMPLERS.build(sampler, default_args=defaults)
        self.seed = self.sampler.seed if seed is None else seed
        self.start = 0
        self._epoch = 0

    @property
    def is_endless(self) -> bool:
        """Whether one pass lasts the whole training."""
        return isinstance(self.sampler, InfiniteSampler)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order."""
        self._epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def set_seed(self, seed: int) -> None:
        """Set the seed of the resumed run, if the config has none."""
        self.seed = self.sampler.seed = seed

    def __iter__(self) -> Iterator[Draw | int]:
        rank, world_size = get_dist_info()
        takes_draws = getattr(self.dataset, "takes_draws", False)
        for place, index in islice(enumerate(self.sampler), self.start, None):
            # An epoch of an endless sampler is a pass over the data.
            epoch = self._epoch + (place * world_size + rank) // len(self.dataset)
            yield Draw(self.seed, epoch, index) if takes_draws else index

    def __len__(self) -> int:
        return len(self.sampler)


class LateBatches(BatchSampler):
    """Skip the first ``start`` batches of a batch sampler; later ones may depend on these."""

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
    """Wrap the parts of a loader's config in ``DrawSampler`` and ``SeededSamples``.

    The data set is not wrapped if ``seeds_itself``: its samples depend on (seed, epoch, index).
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
