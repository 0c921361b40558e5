"""Moving-average copy of a network, without gradient, for momentum methods."""

import copy
import math
from itertools import chain

import torch
from torch import Tensor, nn

AVERAGED_PERCENT = 7  # of the steps, see ``momentum_for``


class MomentumEncoder(nn.Module):
    """``copies`` of modules, updated as an exponential moving average, without gradient.

    They share the train or eval mode of the model and have their own BatchNorm statistics, which no
    update changes. mmengine's averaged models synchronise with the device and overwrite these
    statistics. The followed modules are not registered here, so that the model's state dict
    contains them once. ``num_updates`` is saved as the extra state.

    Args:
        modules: The networks to follow, such as backbone and neck, in their final memory format.
            Their parameters must stay the same objects, or be replaced in the copies, too, as the
            conversion to SyncBN does.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self._followed = modules  # torch does not register the modules in a tuple
        self.copies = nn.ModuleList(copy.deepcopy(module) for module in modules)
        self.copies.requires_grad_(False)
        self.num_updates = 0

    def copies_of(self, module: nn.Module) -> list[nn.Module]:
        """Return the copies of ``module``."""
        pairs = zip(self.copies, self._followed, strict=True)
        return [copy for copy, followed in pairs if followed is module]

    @torch.no_grad()
    def update(self, momentum: float) -> None:
        """Set every parameter p' of the copies to ``momentum p' + (1 - momentum) p``.

        The first call of a training copies all parameters and buffers instead, because weights are
        initialised or loaded after the model is built. ``momentum`` is in [0, 1].
        """
        if self.num_updates == 0:
            for part, followed in zip(self.copies, self._followed, strict=True):
                part.load_state_dict(followed.state_dict())
        else:
            averages: list[Tensor] = list(self.copies.parameters())
            parameters = (part.parameters() for part in self._followed)
            latest: list[Tensor] = list(chain.from_iterable(parameters))
            torch._foreach_lerp_(averages, latest, 1 - momentum)
        self.num_updates += 1

    def get_extra_state(self) -> Tensor:
        """Return the count as a tensor, the only type that mmengine's checkpoints accept."""
        return torch.tensor(self.num_updates)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the count, so that a resumed training keeps the average."""
        self.num_updates = int(state)


def momentum_for(num_steps: int, largest: float) -> float:
    """Return a momentum m that suits the length of a training, at most the ``largest``.

    The average is over 1 / (1 - m) = 7 % of the steps. With m = 0.999 it would still be near its
    random start when a short training ends.
    """
    averaged = max(1.0, num_steps * AVERAGED_PERCENT / 100)
    return min(largest, round(1 - 1 / averaged, 4))


def target_momentum(base: float, progress: float) -> float:
    """Compute BYOL's m = 1 - (1 - m_0) (cos(pi t / T) + 1) / 2 (arXiv:2006.07733).

    ``base`` is m_0 in [0, 1), ``progress`` is t / T. Above 1 the result stays 1.
    """
    return 1 - (1 - base) * (math.cos(math.pi * min(1.0, progress)) + 1) / 2
