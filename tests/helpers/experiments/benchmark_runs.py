"""Short names for results of benchmark runs."""

from mmssprl.experiments.benchmark.protocols import METRICS, TransferResult


def done(weights, protocol, seed, *values):
    metrics = dict(zip(METRICS[protocol], values, strict=True))
    return TransferResult(protocol, weights, seed, metrics, seconds=2.5, status="done")


def failed(weights, protocol, seed, reason):
    return TransferResult(protocol, weights, seed, {}, seconds=1.0, status="failed", reason=reason)


def skipped(weights, protocol, seed, reason):
    return TransferResult(protocol, weights, seed, {}, seconds=0.0, status="skipped", reason=reason)
