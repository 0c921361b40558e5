"""Time the steps of a training in an ordinary runner."""

import os
import time
from collections.abc import Iterator, Mapping

from torch import Tensor

from ..functional.phases import OPTIMIZER
from ..profiling.machine import peak_bytes, reset_peak_bytes, usable_cores
from ..profiling.profile import typical
from ..profiling.saved_bytes import saved_bytes
from ..profiling.training import MeasuringHook
from .pace import LEAST_STEPS, Pace, fitting_images, scaled, with_loader

_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0
"""After it no step begins, but for the least number."""


class PaceHook(MeasuringHook):
    """Lets a runner take some steps, and makes a ``pace`` of them.

    Args:
        num_devices: Processes that will train.
    """

    pace: Pace

    def __init__(self, num_devices: int) -> None:
        self.num_devices = num_devices

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
        images = fitting_images(sum(first.values()) / 1e9, unit, full, unit)
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
        cores = usable_cores()
        more_bytes = counts[0] / unit * (full - images)
        self.pace = Pace(
            step_s=with_loader(
                scaled(sum(mean_ms.values()), mean_ms[OPTIMIZER], images, full) / 1000,
                sum(self.loader_cost.ms.values()) * full / 1000,
                num_workers=self.loader.num_workers,
                cores=cores / self.num_devices,
                on_gpu=self.device != "cpu",
            ),
            num_timed=images,
            batch_size=full,
            memory_bytes=peak_bytes(self.device) + more_bytes,
            checkpoint_bytes=self._checkpoint_bytes(),
            backbone_bytes=sum(value.nbytes for value in self.model.backbone.state_dict().values()),
            device=self.device,
            cores=cores,
            load=os.getloadavg()[0],
        )

    def _checkpoint_bytes(self) -> int:
        # AdamW counts its steps in tensors, other optimizers in numbers.
        of_parameters = self.runner.optim_wrapper.optimizer.state.values()
        values = [value for state in of_parameters for value in state.values()]
        num_bytes = sum(value.nbytes for value in values if isinstance(value, Tensor))
        return num_bytes + self.model.checkpoint_bytes(self.num_devices)
