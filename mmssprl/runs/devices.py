"""The devices of a run, the images of its steps and epochs, and the processes that read them."""

import math

import torch
from mmengine.config import Config

from ..console.wording import counted
from ..errors import UserRuntimeError, UserValueError
from ..system.environment import cores_of_run

LEAST_STEPS_PER_EPOCH = 8  # the chosen batch is small enough for so many updates per epoch
LEAST_BATCH = 2  # images per device and step; BatchNorm has no statistics of one image
MOST_WORKERS = 8  # reading processes of a training process


def choose_batch(
    num_images: int,
    num_devices: int,
    most: int,
    asked: int | None,
    *,
    least: int = LEAST_BATCH,
    accumulate: int = 1,
) -> tuple[int, str]:
    """Return the images per device and step, in all ``accumulate`` parts together, and the reason.

    A part has ``asked`` images, or a power of 2 from ``least`` to ``most`` that grows with the
    number of images. Raises ValueError if a step lacks images.
    """
    if asked is None:
        fitting = max(min(least, num_images // num_devices), LEAST_BATCH)
        fitting = max(fitting, num_images // (LEAST_STEPS_PER_EPOCH * num_devices))
        part = min(most, 2 ** int(math.log2(fitting)))
        reason = f"at most {most} per device, and at least {LEAST_STEPS_PER_EPOCH} steps per epoch"
    else:
        part = asked
        reason = "as asked"
    if accumulate * part * num_devices > num_images or part < LEAST_BATCH:
        parts = f" x accumulate {accumulate}" if accumulate > 1 else ""
        raise UserValueError(
            f"a step needs {LEAST_BATCH} images per device and at most all {num_images} images, "
            f"but got batch_size {part}{parts} on {counted(num_devices, 'device')}; lower "
            "it or accumulate, use fewer GPUs (CUDA_VISIBLE_DEVICES), or add images."
        )
    return accumulate * part, reason


def choose_epochs(images_seen: int, num_images: int, limits: tuple[int, int]) -> int:
    """Return the epochs that see about so many images: a multiple of 10, within limits."""
    least, most = limits
    return min(most, max(least, 10 * round(images_seen / num_images / 10)))


def choose_gpus(asked: int | None) -> int:
    """Return the number of GPUs to train on, all by default; 0 is the CPU."""
    found = torch.cuda.device_count()
    if asked is not None and not found:
        raise UserValueError(
            f"gpus needs a GPU, but got {asked} and torch finds none; leave it out to train on the "
            "CPU, or look for the reason by `doctor` (CUDA_VISIBLE_DEVICES= hides all)."
        )
    if asked is not None and not 1 <= asked <= found:
        raise UserValueError(
            f"gpus must be from 1 to {found}, the number that torch finds, but got {asked}; leave "
            "it out, or set CUDA_VISIBLE_DEVICES= to train on the CPU."
        )
    return found if asked is None else asked


def gpus_of_run(cfg: Config) -> int:
    """Return the number of GPUs that a run resumes on; 0 is the CPU.

    A pre-training resumes on as many as it began on, a fine-tuning on all.
    """
    found = torch.cuda.device_count()
    if "auto_scale_lr" not in cfg:
        return found

    step_images = cfg.auto_scale_lr.base_batch_size
    wanted = max(1, step_images // cfg.train_dataloader.batch_size)
    if wanted > max(1, found):
        raise UserRuntimeError(
            f"cannot resume: the run began on {wanted} GPUs, here are {found}; resume it on "
            f"{wanted} GPUs, or start a new run."
        )
    return min(wanted, found)


def reading_processes(num_devices: int) -> int:
    """Return the reading processes per training process; one core is left to the latter."""
    return min(MOST_WORKERS, max(1, cores_of_run() // num_devices - 1))
