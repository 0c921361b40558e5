"""How published ResNets name their tensors: explicit tables, nothing guessed from file names.

A *key table* is one way to name them, a *source* the project that a file comes from. Several
projects share a table: MoCo's and DetCo's files can have the same keys, and keys alone cannot
tell them apart.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import UserValueError

_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_DETECTRON2 = (
    (r"^stem\.conv1\.norm\.", "bn1."),
    (r"^stem\.conv1\.", "conv1."),
    (r"\.shortcut\.norm\.", ".downsample.1."),
    (r"\.shortcut\.", ".downsample.0."),
    (r"\.conv(\d)\.norm\.", r".bn\1."),
)


@dataclass(frozen=True)
class KeyTable:
    """One way to name tensors, the prefix ``module.`` of DistributedDataParallel taken off.

    Attributes:
        name: Short name, for reports and errors.
        files: Which published files have it.
        markers: Patterns, each of which matches some whole key of such a file.
        prefixes: Ordered pairs of a prefix and what stands for it; the first that begins a key
            gives the key's name in the trunk.
        is_detectron2: Whether the trunk has detectron2's names instead of torchvision's.
        note: What a user should know and the keys cannot tell, or "".
    """

    name: str
    files: str
    markers: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = (("", ""),)
    is_detectron2: bool = False
    note: str = ""

    def trunk_name(self, key: str) -> str | None:
        """Give the name of a tensor in torchvision's ResNet, or None if it is not of the trunk."""
        for prefix, replacement in self.prefixes:
            if key.startswith(prefix):
                name = replacement + key.removeprefix(prefix)
                name = _torchvision_name(name) if self.is_detectron2 else name
                return name if _TRUNK.match(name) else None
        return None

    def group(self, key: str) -> str:
        """Name the part of the network that a tensor outside the trunk belongs to."""
        prefix = next((p for p, _ in self.prefixes if key.startswith(p)), "")
        return prefix + key.removeprefix(prefix).split(".")[0]

    def evidence(self, keys: Collection[str]) -> tuple[str, ...] | None:
        """Find the keys that give the table away, one per marker; None if one is missing."""
        found = [next((k for k in keys if re.fullmatch(m, k)), None) for m in self.markers]
        return None if None in found else tuple(key for key in found if key is not None)


def _torchvision_name(name: str) -> str:
    """Rename a tensor of detectron2's ResNet, whose stages are res2 to res5."""
    name = re.sub(r"^res(\d+)", lambda stage: f"layer{int(stage[1]) - 1}", name)
    for pattern, replacement in _DETECTRON2:
        name = re.sub(pattern, replacement, name)
    return name


SSPRL = KeyTable(
    name="ssprl",
    files="released SS-PRL, with all heads",
    markers=(r"ptypes\.weight", r"conv1\.weight"),
    note="the released queues lie outside the checkpoint (queue.pth of each rank) and are not "
    "converted: queues start empty, counters at 0",
)
"""The authors' training checkpoint (``state_dict`` beside ``optimizer`` and ``epoch``).

The trunk pads the image by 1 before a conv1 of padding 2; ours has padding 3, which is the same,
and no name differs from torchvision's.
"""

_SSPRL_HEADS: tuple[tuple[str, str, int], ...] = (
    # Pattern, our name with the scale or level in braces, what is added to the number found.
    (r"projection_head\.", "neck.heads.0.", 0),
    (r"ptypes\.", "head.prototypes.0.", 0),
    (r"l_pro_head(\d+)\.", "neck.heads.{}.", 1),
    (r"local_ptypes(\d+)\.", "head.prototypes.{}.", 1),
    (r"l2g_ptypes(\d+)\.", "head.correlation.{}.", 0),
)
"""Heads of ``SSPRL``; its patch levels count from 0, and level i is our scale i + 1."""


def ssprl_name(key: str) -> str:
    """Give the name in our model of a tensor of released SS-PRL.

    A key without a place keeps its name, so that a strict load tells it.
    """
    name = SSPRL.trunk_name(key)
    if name is not None:
        return f"backbone.{name}"
    for pattern, ours, shift in _SSPRL_HEADS:
        found = re.match(pattern, key)
        if found:
            numbers = [int(number) + shift for number in found.groups()]
            return ours.format(*numbers) + key[found.end() :]
    return key


SWAV = KeyTable(
    name="swav",
    files="SwAV, DeepCluster v2",
    markers=(r"prototypes\.(prototypes\d+\.)?weight", r"conv1\.weight"),
)
"""``swav_*_pretrain.pth.tar`` is a bare state dict of DistributedDataParallel. Its trunk pads as
that of ``SSPRL``."""

MOCO = KeyTable(
    name="moco",
    files="MoCo v1 and v2 (DetCo and MaskCo, if published as MoCo's code saves)",
    markers=(r"encoder_q\.conv1\.weight",),
    prefixes=(("encoder_q.", ""),),
)
"""``moco_v*_pretrain.pth.tar`` holds the query encoder, and often the key encoder and the queue."""

DENSECL = KeyTable(
    name="densecl",
    files="DenseCL's training checkpoints",
    markers=(r"encoder_q\.0\.conv1\.weight", r"queue2"),
    prefixes=(("encoder_q.0.", ""),),
)
"""The keys of ``OPENSELFSUP`` with a second queue."""

OPENSELFSUP = KeyTable(
    name="openselfsup-moco",
    files="MoCo of OpenSelfSup and what builds on it (DetCo, MaskCo)",
    markers=(r"encoder_q\.0\.conv1\.weight",),
    prefixes=(("encoder_q.0.", ""),),
)
"""Training checkpoints of OpenSelfSup's MoCo. ``encoder_q.0`` is the backbone, which is held a
second time as ``backbone``, and ``encoder_q.1`` is the neck."""

BYOL = KeyTable(
    name="byol",
    files="BYOL of OpenSelfSup",
    markers=(r"online_net\.0\.conv1\.weight",),
    prefixes=(("online_net.0.", ""),),
)
"""Training checkpoints of OpenSelfSup's BYOL. The online network is taken, and not its average, the
target network."""

INSLOC = KeyTable(
    name="insloc",
    files="InsLoc (FPN and C4)",
    markers=(r"backbone\.conv1\.weight", r"backbone_k\.conv1\.weight"),
    prefixes=(("roi_head.shared_head.", ""), ("backbone.", "")),
)
"""``insloc_*.pth`` is a detector of mmdet 2 with momentum copies ``*_k``. In the C4 form the last
stage is the detector's shared head and not part of ``backbone``."""

BACKBONE = KeyTable(
    name="backbone",
    files="OpenMMLab models (mmpretrain, mmselfsup, mmdet, mmseg)",
    markers=(r"backbone\.conv1\.weight",),
    prefixes=(("backbone.", ""),),
)
"""Any checkpoint whose ResNet lies under ``backbone.``."""

DETECTRON2 = KeyTable(
    name="detectron2",
    files="detectron2's backbones and detectors, .pkl or .pth",
    markers=(r"(backbone\.(bottom_up\.)?)?stem\.conv1\.weight",),
    prefixes=(
        ("backbone.bottom_up.", ""),
        ("roi_heads.res5.", "res5."),
        ("backbone.", ""),
        ("", ""),
    ),
    is_detectron2=True,
    note="keys cannot tell torchvision's form (stride in the 3x3 convolution, RGB) from Caffe's "
    "(stride in the 1x1, BGR, pixel std 1): for Caffe's set backbone.style='caffe' and the "
    "preprocessor's mean and std in the config",
)
"""The names are bare in a converted backbone, and have a prefix in detectors with FPN or C4."""

TORCHVISION = KeyTable(
    name="torchvision",
    files="torchvision and timm, with the classifier",
    markers=(r"conv1\.weight", r"layer1\.0\.conv1\.weight", r"fc\.weight"),
)
"""A network that was trained with labels, so no file of a self-supervised project."""

EXTRACTED = KeyTable(
    name="extracted",
    files="backbones alone under torchvision's names, as extracted from OpenSelfSup (MoCo, BYOL, "
    "DenseCL, DetCo)",
    markers=TORCHVISION.markers[:-1],
)
"""``densecl_r50_*.pth`` and ``detco_*.pth``; the keys cannot tell of which project."""

KEY_TABLES = (
    *(SSPRL, SWAV, MOCO, DENSECL, OPENSELFSUP, BYOL),
    *(INSLOC, BACKBONE, DETECTRON2, TORCHVISION, EXTRACTED),
)
"""All tables; a file has the first that fits, so those with more markers come first."""

AUTO = "auto"

SOURCES: dict[str, tuple[KeyTable, ...]] = {
    "ssprl": (SSPRL,),
    "swav": (SWAV,),
    "moco": (MOCO, OPENSELFSUP, EXTRACTED),
    # DeepMind's own files are pickles of JAX; converted by others, they have torchvision's names.
    "byol": (BYOL, BACKBONE, EXTRACTED),
    "densecl": (DENSECL, BACKBONE, EXTRACTED),
    # Published as extracted backbones; the training code, and so its checkpoints, never was.
    "detco": (EXTRACTED, MOCO, OPENSELFSUP, BACKBONE, DETECTRON2),
    # No published file is known; assumed are the keys of the usual code bases.
    "maskco": (MOCO, OPENSELFSUP, BACKBONE, EXTRACTED),
    "insloc": (INSLOC, BACKBONE, DETECTRON2),
    "torchvision": (TORCHVISION, EXTRACTED),
    "detectron2": (DETECTRON2,),
    AUTO: KEY_TABLES,
}
"""The tables that files of each source may have."""


def find_key_table(
    keys: Collection[str], source: str, *, file: str
) -> tuple[KeyTable, tuple[str, ...]]:
    """Find the table of a file by its keys, and check that its source may have it.

    Args:
        keys: Names of the file's tensors, without ``module.``.
        source: Key of ``SOURCES``; ``'auto'`` takes every table.
        file: For the messages.

    Returns:
        The table and the keys that gave it away.

    Raises:
        ValueError: Unknown source, keys of no table, or of a table that the source has not.
    """
    if source not in SOURCES:
        raise UserValueError(
            f"the source must be one of {', '.join(SOURCES)}, but got {source!r}; "
            "'auto' looks at the keys."
        )
    for table in KEY_TABLES:
        evidence = table.evidence(keys)
        if evidence is None:
            continue
        if table not in SOURCES[source]:
            raise UserValueError(
                f"a file of {source} must have the keys of "
                f"{' or '.join(known.name for known in SOURCES[source])}, but {file} has those of "
                f"{table.name} ({', '.join(evidence)}); pass --from auto."
            )
        return table, evidence
    known = "; ".join(f"{table.name} ({table.files})" for table in KEY_TABLES)
    raise UserValueError(
        f"the keys must be those of a known project, but {file} has {len(keys)} keys that begin "
        f"{', '.join(list(keys)[:5])}; rename them to torchvision's. Known keys: {known}."
    )
