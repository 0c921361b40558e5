"""timm's networks as backbones. State dicts keep timm's names.

Legend: N images, C features, H, W height and width of the last feature map.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .._dependencies import is_importable
from ..console.wording import nearest
from ..errors import UserRuntimeError, UserValueError
from ..registry import MODELS
from .replacement import replace_modules

OUT_TYPES = ("pooled", "featmap")


class HiddenModule(nn.Module):
    """A wrapper of a module, ``inner``, that adds no prefix to names in state dicts."""

    inner: nn.Module

    def __init__(self) -> None:
        super().__init__()
        # A hook, because mmengine calls no ``state_dict`` when it collects a checkpoint.
        self._register_state_dict_hook(_drop_inner)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        _rename(state_dict, prefix, f"{prefix}inner.")
        super()._load_from_state_dict(state_dict, prefix, *args)


def _drop_inner(module: nn.Module, state_dict: dict, prefix: str, metadata: Any) -> None:
    _rename(state_dict, f"{prefix}inner.", prefix)


def _rename(state_dict: dict, old: str, new: str) -> None:
    # Collect all keys first, because a network may have an `inner` of the same name.
    keys = [key for key in state_dict if key.startswith(old)]
    state_dict |= {new + key.removeprefix(old): state_dict.pop(key) for key in keys}


@MODELS.register_module()
class TimmBackbone(HiddenModule):
    """A network of timm without its classifier.

    Unlike mmpretrain's ``TIMMBackbone``, it pools transformer tokens and keeps timm's weight names.

    Args:
        model_name: timm's name of the network.
        out_type: 'pooled' for the input of the classifier, (N, C), or 'featmap' for the last
            feature map (N, C, H, W). The map of a ViT has no prefix tokens.
        options: Arguments of ``timm.create_model``, such as ``dynamic_img_size=True``.
    """

    def __init__(
        self,
        model_name: str,
        out_type: str = "pooled",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if out_type not in OUT_TYPES:
            raise UserValueError(f"out_type must be one of {OUT_TYPES}, but got {out_type!r}.")
        check_timm(model_name)
        import timm

        self.model_name = model_name
        self.out_type = out_type
        self._options = dict(options or {})
        self.inner = split_norms(timm.create_model(model_name, num_classes=0, **self._options))

    @property
    def img_size(self) -> tuple[int, int]:
        """Height and width of the images: the option, or what timm trains the network on."""
        model: Any = self.inner
        chosen = self._options.get("img_size") or model.pretrained_cfg["input_size"][-2:]
        return (chosen, chosen) if isinstance(chosen, int) else tuple(chosen)

    @property
    def fixed_px(self) -> int | None:
        """As ``fixed_px_of``."""
        return fixed_px_of(self.model_name, self._options)

    def init_weights(self) -> None:
        """Keep timm's initial weights."""

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Return the features of ``images`` (N, 3, height, width), as ``out_type`` says."""
        model: Any = self.inner
        if self.out_type == "pooled":
            return (model(images),)
        features = model.forward_features(images)
        if not isinstance(features, Tensor):  # such as the tokens of several branches
            raise UserValueError(
                "weights must be of a backbone that gives a feature map, but the features of "
                f"timm/{self.model_name} are a {type(features).__name__}; use another network."
            )
        if features.dim() == 3:
            tokens = features[:, getattr(model, "num_prefix_tokens", None) or 0 :]
            return (map_of_tokens(tokens, images),)
        is_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
        return (features.movedim(3, 1) if is_last else features,)


def fixed_px_of(model_name: str, options: Mapping[str, Any]) -> int | None:
    """Return the side of the images of a network of timm that says it takes one size, else None."""
    import timm

    found = timm.get_pretrained_cfg(model_name)
    if found is None or options.get("dynamic_img_size") or not found.fixed_input_size:
        return None
    height, width = found.input_size[-2:]
    usual = height if height == width else None
    chosen = options.get("img_size", usual)
    return chosen if isinstance(chosen, int) else None


def map_of_tokens(tokens: Tensor, images: Tensor) -> Tensor:
    """Return tokens (N, H W, C) as a map (N, C, H, W) in the proportions of ``images``.

    Raises:
        ValueError: They are not that many.
    """
    num_tokens = tokens.shape[1]
    height, width = images.shape[-2:]
    rows = round((num_tokens * height / width) ** 0.5)
    grid = rows, round(rows * width / height)
    if math.prod(grid) != num_tokens:
        raise UserValueError(
            "weights must be of a backbone that gives a feature map, but the network returns "
            f"{num_tokens} tokens for {height} x {width} px, which are no grid; use another one."
        )
    return tokens.transpose(1, 2).unflatten(2, grid)


def published_form(model_name: str) -> str:
    """Return timm's name of the form of a network that takes its authors' file.

    A ViT of DINOv3 without ``_qkvb`` has no place for the biases in that file.
    """
    return re.sub(r"^(vit_\w+_dinov3)(?=\.|$)", r"\1_qkvb", model_name)


def check_timm(model_name: str) -> None:
    """Raise RuntimeError if timm is not installed, ValueError if it has no such network or tag."""
    if not is_importable("timm"):
        raise UserRuntimeError(
            f"the backbone timm/{model_name} needs timm, but it is not installed; "
            'pip install "mmssprl[timm]".'
        )
    import timm

    if not timm.is_model(model_name):
        known = timm.list_models()
        near = published_form(nearest(model_name, known))
        remedy = f"; did you mean {near}?" if near in known else "; timm.list_models() names all."
        raise UserValueError(f"timm {timm.__version__} has no network {model_name!r}{remedy}")
    try:
        timm.get_pretrained_cfg(model_name)
    except RuntimeError as error:  # of the tag after the point
        name = model_name.partition(".")[0]
        raise UserValueError(
            f"timm {timm.__version__} has no weights {model_name!r}; "
            f"timm.list_pretrained('{name}*') names all."
        ) from error


class _NormAct(HiddenModule):
    """A plain BatchNorm, then the other layers of timm's ``BatchNormAct2d``."""

    def __init__(self, norm: nn.BatchNorm2d, *behind: nn.Module) -> None:
        super().__init__()
        self.inner = norm
        self.behind = nn.Sequential(*behind)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.behind(self.inner(inputs))


def split_norms(network: nn.Module) -> nn.Module:
    """Split timm's ``BatchNormAct2d`` into a BatchNorm and an activation.

    It is a subclass of BatchNorm. Replacing it by SyncBN or ``GroupedBatchNorm`` would silently
    drop the activation.
    """
    from timm.layers import BatchNormAct2d

    def split(part: Any) -> nn.Module:
        # Activations with parameters stay, because they have names in the state dict.
        if not isinstance(part, BatchNormAct2d) or any(True for _ in part.act.parameters()):
            return part
        norm = nn.BatchNorm2d(part.num_features, part.eps, part.momentum, part.affine)
        for key, value in [*part.named_parameters(), *part.named_buffers()]:
            setattr(norm, key, value)
        return _NormAct(norm, part.drop, part.act)

    return replace_modules(network, split)
