"""Replace parts of a network."""

from collections.abc import Callable

from torch import nn


def replace_modules(network: nn.Module, replacement: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Set ``replacement(module)`` in place of each module of a network, under all its names.

    A module with two names stays one module. Returns the replacement of the network itself.
    """
    parts = dict(network.named_modules(remove_duplicate=False))
    replaced: dict[nn.Module, nn.Module] = {}
    for place, part in parts.items():
        if part not in replaced:
            replaced[part] = replacement(part)
        if place and replaced[part] is not part:
            parent, _, name = place.rpartition(".")
            setattr(parts[parent], name, replaced[part])
    return replaced[network]
