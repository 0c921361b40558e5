"""Time the steps of a training in an ordinary runner."""

import time
from collections.abc import Iterator, Mapping
from itertools import count

import torch

from ..features.probe_hook import ProbeHook, weights_before
from ..functional.phases import OPTIMIZER
from ..system.environment import usable_cores
from ..system.machine import peak_bytes, reset_peak_bytes
from .pace import LEAST_STEPS, Pace, fitting_images, make_pace
from .profile import typical
from .saved_bytes import saved_bytes
from .training import MeasuringHook

_COMPARED_STEP_S = 0.5
"""About as long take the steps that compare numbers of threads."""
_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0
"""After it no step begins, but for the least number."""


class PaceHook(MeasuringHook):
    """Lets a runner take some steps, and makes a ``pace`` of them.

    Args:
        num_devices: Processes that will train.
        load: Of the machine before, see ``Pace``.
        probe: What will probe the training, if anything.
    """

    pace: Pace

    def __init__(self, num_devices: int, load: float, probe: ProbeHook | None = None) -> None:
        self.num_devices = num_devices
        self.load = load
        self.probe = probe

    def steps(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Yield few images, and then as many as let the timed steps end in ``TIME_LIMIT_S``."""
        full = self.loader.batch_size
        unit = min(full, self.model.batch_unit(self.runner.cfg.model))

        def batch(images: int) -> dict:
            return {"inputs": [part[:images] for part in next(batches)["inputs"]]}

        with saved_bytes(self.runner.model) as counts:
            yield batch(unit)  # compiles as well
        with self.clock.step() as first:
            yield batch(unit)
        unit_s = first.total() / 1e9
        few = fitting_images(unit_s, unit, full, unit, _COMPARED_STEP_S)
        few_s = yield from self.choose_threads(batch(few) for _ in count())
        if few_s is not None:
            unit_s = few_s * unit / few
        images = fitting_images(unit_s, unit, full, unit)
        reset_peak_bytes(self.device)
        yield batch(images)  # allocates for this size
        times: list[Mapping[str, int]] = []
        start = time.perf_counter()
        while len(times) < LEAST_STEPS or (
            len(times) < _MOST_STEPS and time.perf_counter() - start < _LONG_ENOUGH_S
        ):
            with self.clock.step() as phases:
                yield batch(images)
            times.append(phases)
        mean_ms = typical(times)
        self.pace = make_pace(
            step_s=sum(mean_ms.values()) / 1000,
            fixed_s=mean_ms[OPTIMIZER] / 1000,
            loading_s=sum(self.loader_cost.ms.values()) / 1000,
            num_timed=images,
            batch_size=full,
            num_workers=self.loader.num_workers,
            cores_of_each=usable_cores() / self.num_devices,
            peak_bytes=peak_bytes(self.device),
            image_bytes=counts[0] / unit,
            checkpoint_bytes=self.checkpoint_bytes(self.num_devices),
            backbone_bytes=self.backbone_bytes(),
            device=self.device,
            threads=torch.get_num_threads(),
            load=self.load,
            probe_s=self.probe.estimate(self.runner) if self.probe else 0.0,
            first_probes=len(weights_before(self.runner.cfg)) if self.probe else 0,
        )
