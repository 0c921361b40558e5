"""How slowly a network that averages another one may follow it in a short training."""

_SHARE_PERCENT = 7
"""Of the steps, over which the average reaches, 1 / (1 - m), unless the published m is shorter:
with m = 0.999 the average would still be at its random start when a short training ends."""


def momentum_for(num_steps: int, published: float) -> tuple[float, str]:
    """Return m for a training of so many steps, at most the published one, and why."""
    memory_steps = num_steps * _SHARE_PERCENT / 100
    fitting = round(1 - 1 / max(1.0, memory_steps), 4)
    if published <= fitting:
        return published, "as published"
    return fitting, f"an average over {_SHARE_PERCENT} % of the {num_steps} updates"
