"""Turn packed uint8 crops into augmented, normalised, view-major batches on the model's device.

Legend: N_g crops per image in resolution group g, B images per rank, px side of the group's crops.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.model import BaseDataPreprocessor
from torch import Generator, Tensor

from ..errors import UserValueError
from ..functional.boxes import mirror_places
from ..functional.channels import augment_channels
from ..functional.photometric import apply_photometric
from ..functional.photometric_params import PhotometricParams, Probability, draw_photometric
from ..pixels import IMAGENET_MEAN, IMAGENET_STD, Pixels
from ..pyramid import ViewLayout
from ..registry import MODELS


@MODELS.register_module()
class PyramidPreprocessor(BaseDataPreprocessor):
    """Augment and normalise every crop separately.

    The defaults are the released recipe, except for the standard deviation of red. The released
    code has 0.228; the default is ImageNet's usual 0.229, as in the transfer configs.

    The augmentations of a step depend only on ``seed``, ``num_batches`` and the rank, and are drawn
    on the CPU. So a resumed run makes the same draws, ranks and steps differ, and a GPU applies the
    same augmentations as a CPU. Both numbers are saved as the extra state, so that no step waits
    for the device to read them.

    Args:
        layout: The views of both pyramids, the same as in ``PyramidCrop``.
        mean: Per channel: R, G, B in [0, 255], or in the stored unit of ``pixels``.
        std: As ``mean``, > 0.
        flip_prob: Probability of a horizontal flip. If the two image views are the only views, this
            and the other probabilities may be two numbers, one per view.
        brightness: Strength of ``draw_color_jitter``, at least 0.
        contrast: As ``brightness``.
        saturation: As ``brightness``.
        hue: As ``brightness``, in [0, 0.5] turns.
        jitter_prob: Probability of the colour jitter.
        grayscale_prob: Probability of grayscale after the jitter, drawn independently.
        blur_prob: Probability of a Gaussian blur.
        blur_sigma: Range (low, high) of its standard deviation in pixels.
        solarize_prob: Probability of solarizing at the end: inverting the upper half of the range.
        compile: Whether to fuse the operations of a group with torch.compile. The first step
            compiles once per group and process. No effect on the CPU, where operations are always
            fused, or on channels that are not colours.
        pixels: Format of the images, a ``Pixels`` or a dict of its fields; None is 8-bit RGB.
            Channels that are not colours are augmented as in ``functional.channels``.

    Raises:
        ValueError: A number out of its range, or a colour augmentation for other channels.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        flip_prob: Probability = 0.5,
        brightness: float = 0.8,
        contrast: float = 0.8,
        saturation: float = 0.8,
        hue: float = 0.2,
        jitter_prob: Probability = 0.8,
        grayscale_prob: Probability = 0.2,
        blur_prob: Probability = 0.5,
        blur_sigma: tuple[float, float] = (0.1, 2.0),
        solarize_prob: Probability = 0.0,
        compile: bool = False,
        pixels: Pixels | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(non_blocking=True)
        self.layout = ViewLayout.build(layout)
        self.pixels = Pixels.build(pixels)
        num = self.pixels.channels if self.pixels else 3
        if len(mean) != num or len(std) != num or min(std) <= 0:
            raise UserValueError(
                f"mean and std must be one number per channel, {num} here, std > 0, "
                f"but got mean={tuple(mean)}, std={tuple(std)}; give one for each."
            )
        self.mean = tuple(mean)
        self.std = tuple(std)

        self.augmentations: dict[str, dict[str, Any]] = {
            "flip": {"prob": flip_prob},
            "jitter": {
                "brightness": brightness,
                "contrast": contrast,
                "saturation": saturation,
                "hue": hue,
                "prob": jitter_prob,
            },
            "grayscale": {"prob": grayscale_prob},
            "blur": {"sigma": tuple(blur_sigma), "prob": blur_prob},
        }
        if solarize_prob != 0:  # else it would use up random numbers
            self.augmentations["solarize"] = {"prob": solarize_prob}
        self._check_augmentations()

        self._compile = compile  # ``compile`` is a method of modules
        self.seed = int(torch.randint(2**63 - 1, (), device="cpu"))
        self.num_batches = 0

    def forward(self, data: dict, training: bool = False) -> dict:
        """Move a batch to the model's device, augment it if ``training``, and normalise it.

        Args:
            data: ``inputs`` is a list of tensors (B, N_g, C, px, px), uint8 or float32, one per
                ``layout.groups``. ``data_samples`` is optional: a dict with the ``places`` of the
                crops, one tensor (B, N_g, 4) per group. Other entries are ignored.
            training: Whether to augment.

        Returns:
            ``inputs``, a list of float32 tensors (N_g, B, C, px, px), for RGB in memory (N_g, B,
            px, px, 3). ``data_samples``, None or as given, but with places (N_g, B, 4), mirrored
            for mirrored crops, see ``functional.boxes``.

        Raises:
            ValueError: The inputs do not fit the layout's groups.
        """
        self._check_inputs(data["inputs"])
        packed = self.cast_data(list(data["inputs"]))
        samples = self.cast_data(data.get("data_samples"))
        generator = self._next_generator() if training else None
        # (B, N_g, C, px, px) -> (N_g, B, C, px, px)
        packed = [crops.transpose(0, 1) for crops in packed]
        params = [
            draw_photometric(crops.shape[:2].numel(), **self.augmentations, generator=generator)
            if generator
            else PhotometricParams()
            for crops in packed
        ]
        views = [self._process(*each) for each in zip(packed, params, strict=True)]

        if samples is not None:
            pairs = zip(samples["places"], params, strict=True)
            places = [mirror_places(each.transpose(0, 1), drawn.flip) for each, drawn in pairs]
            samples = {**samples, "places": places}
        return {"inputs": views, "data_samples": samples}

    @property
    def white(self) -> float | None:
        """The value of white; None if the channels are not colours."""
        return self.pixels.white if self.pixels else 255.0

    def _process(self, views: Tensor, params: PhotometricParams) -> Tensor:
        if (white := self.white) is None:
            return augment_channels(views, params, mean=self.mean, std=self.std)
        return apply_photometric(
            views if views.dtype == torch.uint8 else views / white,
            params,
            mean=[mean / white for mean in self.mean],
            std=[std / white for std in self.std],
            compile=self._compile,
        )

    def _next_generator(self) -> Generator:
        entropy = (self.seed, get_rank(), self.num_batches)
        seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
        self.num_batches += 1
        return Generator().manual_seed(seed)

    def get_extra_state(self) -> Tensor:
        """Return (seed, num_batches) as a tensor, the only type that checkpoints accept."""
        return torch.tensor([self.seed, self.num_batches])

    def set_extra_state(self, state: Tensor) -> None:
        """Restore seed and count."""
        self.seed, self.num_batches = state.tolist()

    def _check_augmentations(self) -> None:
        num_crops = [group.num_crops for group in self.layout.groups]
        for name, setting in self.augmentations.items():
            prob = setting["prob"]
            is_per_view = isinstance(prob, Sequence)
            if is_per_view and [len(prob)] != num_crops:
                raise UserValueError(
                    f"{name}_prob must be one probability, or one per view of a layout with "
                    f"levels=[] and num_small=0, but got {tuple(prob)} for groups of {num_crops} "
                    "views; give one number."
                )
            probs = prob if is_per_view else [prob]
            if not all(0 <= p <= 1 for p in probs):
                raise UserValueError(f"{name}_prob must be in [0, 1], but got {prob}.")
        draw_photometric(0, **self.augmentations, generator=Generator())

        jitter = self.augmentations["jitter"]
        gray = self.augmentations["grayscale"]["prob"]
        of_colours = (jitter["saturation"], jitter["hue"], gray, "solarize" in self.augmentations)
        if self.white is None and any(of_colours):
            names = "saturation, hue, grayscale_prob and solarize_prob"
            raise UserValueError(f"{names} must be 0 for channels that are no colours; set them.")

    def _check_inputs(self, packed: Any) -> None:
        kind = self.pixels.view_dtype if self.pixels else "uint8"
        num = len(self.mean)
        groups = self.layout.groups
        expected = [("B", group.num_crops, num, group.px, group.px) for group in groups]
        found: Any = type(packed).__name__
        if isinstance(packed, Sequence) and all(isinstance(t, Tensor) for t in packed):
            found = [(*t.shape, str(t.dtype)) for t in packed]
            if found and found == [(found[0][0], *each[1:], f"torch.{kind}") for each in expected]:
                return
        elif isinstance(packed, Sequence) and any(isinstance(x, Sequence) for x in packed):
            raise UserValueError(
                "inputs must be one tensor per group of the layout, but are lists of crops: the "
                "samples are not stacked; set train_dataloader.collate_fn="
                "dict(type='mmssprl.stack_views')."
            )
        raise UserValueError(
            f"inputs must be one {kind} tensor per group of the layout, of shapes {expected} with "
            f"one B, but got {found}; give the pipeline's PyramidCrop and the model one layout."
        )
