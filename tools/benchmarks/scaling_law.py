"""The scaling law: from what a step does (step_events.py) to images per second of many GPUs.

Nothing in here is measured. The symbols are those of scaling.md.

Legend: n GPUs, m nodes, g GPUs per node, B images per GPU.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from scaling_inputs import GIGA, Assumptions, Cluster, Gpu, Latencies
from step_events import Event, Events, total_bytes

_US, _TERA = 1e-6, 1e12


def kernel_seconds(event: Event, gpu: Gpu, efficiency: float) -> float:
    """Roofline of one op: the slower of arithmetic and memory traffic, over the efficiency."""
    compute = event.flops / (gpu.tflops * _TERA)
    traffic = event.num_bytes / (gpu.hbm_tb_s * _TERA)
    return max(compute, traffic) / efficiency


def roofline_seconds(events: Sequence[Event], gpu: Gpu, efficiency: float = 1.0) -> float:
    """Sum of the rooflines of all ops."""
    return sum(kernel_seconds(e, gpu, efficiency) for e in events if e.kind == "op")


def gather_seconds(num_bytes: int, cluster: Cluster, given: Assumptions, lat: Latencies) -> float:
    """All-gather of a few numbers over a ring: n - 1 steps, m - 1 of them between nodes."""
    n, m = cluster.num_gpus, cluster.num_nodes
    if n == 1:
        return 0.0
    inside = lat.ring_small_nvlink * (lat.small_among_nodes if m > 1 else 1)
    steps = (n - m) * inside + (m - 1) * lat.ring_small_network
    bandwidth = lat.small_bandwidth_share * cluster.bandwidth
    return (given.collective_us + steps) * _US + (n - 1) * num_bytes / bandwidth


def reduce_seconds(num_bytes: int, cluster: Cluster, given: Assumptions, lat: Latencies) -> float:
    """All-reduce of a few numbers: the faster of a ring and a tree."""
    n, m = cluster.num_gpus, cluster.num_nodes
    if n == 1:
        return 0.0
    factor = lat.small_among_nodes if m > 1 else 1
    ring = 2 * ((n - m) * factor * lat.ring_small_nvlink + (m - 1) * lat.ring_small_network)
    depth = math.ceil(math.log2(m))
    tree = 2 * ((n / m - 1) * factor * lat.tree_small_nvlink + depth * lat.tree_small_network)
    bandwidth = lat.small_bandwidth_share * cluster.bandwidth
    return (given.collective_us + min(ring, tree)) * _US + 2 * (n - 1) / n * num_bytes / bandwidth


def bucket_seconds(num_bytes: int, cluster: Cluster, given: Assumptions, lat: Latencies) -> float:
    """Ring all-reduce of a bucket: 2 (n - 1) / n of its bytes over the slowest link."""
    n, m = cluster.num_gpus, cluster.num_nodes
    if n == 1:
        return 0.0
    steps = 2 * ((n - m) * lat.ring_large_nvlink + (m - 1) * lat.ring_large_network)
    bandwidth = given.link_share * cluster.bandwidth
    return (given.collective_us + steps) * _US + 2 * (n - 1) / n * num_bytes / bandwidth


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step, by cause; they add up to ``total``.

    Args:
        gpu: Kernels, augmentation included.
        norm: Waiting for SyncBN's own collectives.
        sinkhorn: Waiting for Sinkhorn's collectives.
        gradients: Waiting for gradients that are still on their way.
        host: What the GPU waits for ops to be issued.
    """

    gpu: float
    norm: float
    sinkhorn: float
    gradients: float
    host: float

    @property
    def total(self) -> float:
        """The step."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def limit(self) -> str:
        """Whether the host or the GPU sets the pace."""
        return "host" if self.host > 0 else "GPU"


def simulate(
    events: Events, cluster: Cluster, given: Assumptions, lat: Latencies | None = None
) -> StepTime:
    """Walk through a step on two clocks: kernels, and the one stream of NCCL.

    SyncBN and DDP share a communicator, so that a small collective waits until the gradients
    before it in the stream have arrived.

    Args:
        events: What happens in the step.
        cluster: GPUs, each of which does the same.
        given: See ``Assumptions``.
        lat: NCCL's latencies.
    """
    lat = lat or Latencies()
    busy = roofline_seconds(events, cluster.gpu, given.efficiency)
    augment = busy * given.augment_share / (1 - given.augment_share)
    now = stream_free = 0.0
    waits = {"SyncBN": 0.0, "Sinkhorn": 0.0, "gradients": 0.0}
    missing = total_bytes(events, "gradient")
    bucket, cap = 0, given.first_bucket_bytes
    for event in events:
        if event.kind == "op":
            if not missing:  # DDP returns from backward when all gradients have arrived
                late = max(0.0, stream_free - now)
                waits["gradients"] += late
                now += late
            now += kernel_seconds(event, cluster.gpu, given.efficiency)
        elif event.kind == "gradient":
            bucket += event.num_bytes
            missing -= event.num_bytes
            if bucket >= cap or not missing:
                sent = bucket_seconds(bucket, cluster, given, lat)
                stream_free = max(now, stream_free) + sent
                bucket, cap = 0, given.bucket_bytes
        else:
            collective: Callable = gather_seconds if event.kind == "gather" else reduce_seconds
            own = collective(event.num_bytes, cluster, given, lat)
            if own:
                late = max(0.0, stream_free - now)
                waits["gradients"] += late
                waits[event.what] += own
                now += late + own
                stream_free = now
    waits["gradients"] += max(0.0, stream_free - now)
    issued = given.host_us * _US * sum(event.kind == "op" for event in events)
    device = busy + augment + sum(waits.values())
    return StepTime(
        gpu=busy + augment,
        norm=waits["SyncBN"],
        sinkhorn=waits["Sinkhorn"],
        gradients=waits["gradients"],
        host=max(0.0, issued - device),
    )


@dataclass(frozen=True)
class Rate:
    """Images per second of a cluster, and what it needs for them.

    Args:
        step: The step without the loader.
        images: Per second, of all GPUs, with the loader.
        limit: ``GPU``, ``host`` or ``loader``.
        cores_per_node: CPU cores that the loader keeps busy at the step's own pace.
        jpeg_mb_per_node: MB/s of image files that each node reads.
        pcie_gb_per_gpu: GB/s of crops from the host to each GPU.
        network_gbit_per_node: Gbit/s of gradients that leave each node, on average; 0 on one.
    """

    step: StepTime
    images: float
    limit: str
    cores_per_node: float
    jpeg_mb_per_node: float
    pcie_gb_per_gpu: float
    network_gbit_per_node: float


def rate(
    events: Events,
    batch: int,
    cluster: Cluster,
    given: Assumptions,
    *,
    loader_ms: float,
    crop_bytes: int,
    cores_per_node: float,
) -> Rate:
    """Combine the step with the loader: whichever is slower sets the pace.

    Args:
        events: One step of one GPU.
        batch: B, images in it.
        cluster: n GPUs.
        given: See ``Assumptions``.
        loader_ms: CPU milliseconds of one core per image.
        crop_bytes: Of one image.
        cores_per_node: Cores that the loader may use on each node.
    """
    step = simulate(events, cluster, given)
    n, m = cluster.num_gpus, cluster.num_nodes
    alone = n * batch / step.total
    loader = m * cores_per_node / (loader_ms * 1e-3)
    images = min(alone, loader)
    sent = 2 * (n - 1) / n * total_bytes(events, "gradient") if m > 1 else 0.0
    return Rate(
        step=step,
        images=images,
        limit="loader" if loader < alone else step.limit,
        cores_per_node=alone / m * loader_ms * 1e-3,
        jpeg_mb_per_node=images / m * given.jpeg_bytes / 1e6,
        pcie_gb_per_gpu=images / n * crop_bytes / GIGA,
        network_gbit_per_node=8 * sent * images / (n * batch) / GIGA,
    )
