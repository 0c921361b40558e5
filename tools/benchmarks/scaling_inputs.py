"""What the scaling law is told: GPUs, nodes, latencies, assumptions, each with its source."""

import math
from dataclasses import dataclass

GIGA = 1e9


@dataclass(frozen=True)
class Gpu:
    """A GPU and the node that it is sold in, by the maker's data sheets.

    Args:
        tflops: Dense bfloat16 with float32 sums, without sparsity.
        hbm_tb_s: Bandwidth of its memory.
        memory_gb: Size of its memory.
        nvlink_gb_s: To the other GPUs of the node, per direction.
        nic_gb_s: To other nodes, per direction and GPU.
        pcie_gb_s: From the host, per direction.
        gpus_per_node: g.
        cores_per_node: Physical CPU cores.
        source: Where the numbers are from.
    """

    tflops: float
    hbm_tb_s: float
    memory_gb: float
    nvlink_gb_s: float
    nic_gb_s: float
    pcie_gb_s: float
    gpus_per_node: int
    cores_per_node: int
    source: str


GPUS = {
    "h200": Gpu(989, 4.8, 141, 450, 50, 64, 8, 112, "NVIDIA data sheets, H200 SXM and DGX H200"),
    "h100": Gpu(989, 3.35, 80, 450, 50, 64, 8, 112, "NVIDIA data sheets, H100 SXM and DGX H100"),
    "a100": Gpu(312, 2.039, 80, 300, 25, 32, 8, 128, "NVIDIA data sheets, A100 SXM and DGX A100"),
}


@dataclass(frozen=True)
class Published:
    """A rate that somebody measured, from which the efficiency is taken.

    Args:
        gpu: Name of the GPU, a key of ``GPUS``.
        batch: Crops per step.
        images_per_s: Of a plain ResNet-50 in mixed precision, training, one GPU.
        source: Who measured it.
    """

    gpu: str
    batch: int
    images_per_s: float
    source: str


PUBLISHED = Published(
    "a100",
    256,
    2470,
    "NVIDIA/DeepLearningExamples, ResNet-50 v1.5 for PyTorch: training performance, one A100 80GB",
)


@dataclass(frozen=True)
class Latencies:
    """Microseconds per step of a collective, as NCCL's own tuner assumes them.

    Source: NVIDIA/nccl, src/graph/tuning.cc, ``hwLat`` (LL for small messages, Simple for large
    ones) and the factor for LL inside a node of several.
    """

    ring_small_nvlink: float = 0.47
    ring_small_network: float = 2.7
    tree_small_nvlink: float = 0.52
    tree_small_network: float = 5.0
    ring_large_nvlink: float = 3.4
    ring_large_network: float = 9.6
    small_among_nodes: float = 1.8
    """Factor of the small NVLink latencies if there are several nodes."""

    small_bandwidth_share: float = 0.25
    """Of the links, in the protocol for small messages."""


@dataclass(frozen=True)
class Assumptions:
    """What is neither counted nor on a data sheet.

    Args:
        efficiency: Share of a kernel's roofline that it reaches, in (0, 1].
        augment_share: Share of the GPU's time without communication that goes into augmentation.
        host_us: Host time to issue one op, autograd and hooks included.
        collective_us: Time of a collective beside its steps: launch and change of streams.
        link_share: Share of a link's bandwidth that large messages reach.
        first_bucket_bytes: Gradients that DDP sends first; its default.
        bucket_bytes: Gradients that DDP sends together from then on; its default.
        jpeg_bytes: Of one image file.
    """

    efficiency: float
    augment_share: float = 0.10
    host_us: float = 10.0
    collective_us: float = 10.0
    link_share: float = 0.8
    first_bucket_bytes: int = 2**20
    bucket_bytes: int = 25 * 2**20
    jpeg_bytes: int = 160_000


@dataclass(frozen=True)
class Cluster:
    """n GPUs of one kind and what joins them.

    Raises:
        ValueError: Several nodes of which one is not full.
    """

    gpu: Gpu
    num_gpus: int

    def __post_init__(self) -> None:
        whole = self.num_gpus % self.gpu.gpus_per_node == 0
        if self.num_gpus < 1 or (self.num_gpus > self.gpu.gpus_per_node and not whole):
            raise ValueError(
                f"the number of GPUs must be in 1..{self.gpu.gpus_per_node} or a multiple of "
                f"{self.gpu.gpus_per_node}, but got {self.num_gpus}; fill the nodes."
            )

    @property
    def num_nodes(self) -> int:
        """m."""
        return math.ceil(self.num_gpus / self.gpu.gpus_per_node)

    @property
    def bandwidth(self) -> float:
        """Bytes per second of a ring: NVLink, or all network cards of a node if they are slower."""
        links = [self.gpu.nvlink_gb_s]
        if self.num_nodes > 1:
            links.append(self.gpu.gpus_per_node * self.gpu.nic_gb_s)
        return min(links) * GIGA
