"""Pool the outputs of a backbone to one vector per image."""

from collections.abc import Sequence

from torch import Tensor

from ..errors import UserValueError


def pool(outputs: Sequence[Tensor] | Tensor) -> Tensor:
    """Pool the last output of a backbone, (N, C, H, W) or (N, C), to features (N, C).

    Raises:
        ValueError: The output has another rank, such as the tokens (N, L, C) of a transformer.
    """
    last = outputs if isinstance(outputs, Tensor) else outputs[-1]
    if last.dim() == 4:
        return last.mean(dim=(2, 3))
    if last.dim() != 2:
        raise UserValueError(
            "the backbone's last output must be (N, C, H, W) or (N, C), "
            f"but got {tuple(last.shape)}; for a ViT set out_type='avg_featmap' or 'cls_token'."
        )
    return last
