"""How published ResNets name their tensors: explicit tables, nothing guessed from file names.

A *key table* is one way to name them, a *source* the project that a file comes from.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import UserValueError

_TRUNK = re.compile(r"(conv1|bn1|layer\d+)\.")
_PARTS = {
    **{f"conv{i}": f"conv{i}" for i in (1, 2, 3)},
    **{f"bn{i}": f"conv{i}.norm" for i in (1, 2, 3)},
    **{"downsample.0": "shortcut", "downsample.1": "shortcut.norm"},
}
"""Parts of a ResNet -> detectron2's names for them."""


def to_detectron2(name: str) -> str | None:
    """Rename a tensor: ``layer1.0.bn2.bias`` to ``res2.0.conv2.norm.bias``, a counter to None."""
    found = re.fullmatch(r"(?:layer(\d)\.(\d+)\.)?(.+)\.(\w+)", name)
    if not found or found[3] not in _PARTS:
        raise UserValueError(
            f"every tensor must have a name in detectron2's ResNet, but {name} has none; "
            "export to pth or safetensors."
        )
    # detectron2 counts the stem as the first stage.
    place = f"res{int(found[1]) + 1}.{found[2]}" if found[1] else "stem"
    is_counter = found[4] == "num_batches_tracked"
    return None if is_counter else f"{place}.{_PARTS[found[3]]}.{found[4]}"


def from_detectron2(name: str) -> str:
    """Undo ``to_detectron2``; other names stay as they are."""
    ours = {theirs: part for part, theirs in _PARTS.items()}
    found = re.fullmatch(r"(?:stem|res(\d)\.(\d+))\.(.+)\.(\w+)", name)
    if not found or found[3] not in ours:
        return name
    place = f"layer{int(found[1]) - 1}.{found[2]}." if found[1] else ""
    return f"{place}{ours[found[3]]}.{found[4]}"


@dataclass(frozen=True)
class KeyTable:
    """One way to name tensors, the prefix ``module.`` of DistributedDataParallel taken off."""

    name: str
    files: str  # which published files have it
    markers: tuple[str, ...]  # patterns, each of which matches some whole key of such a file
    # Prefixes of the trunk and what stands for each; the first that begins a key counts.
    prefixes: tuple[tuple[str, str], ...] = (("", ""),)
    is_detectron2: bool = False  # whether the trunk has detectron2's names
    note: str = ""  # what a user should know and the keys cannot tell

    def trunk_name(self, key: str) -> str | None:
        """Give the name of a tensor in torchvision's ResNet, or None if it is not of the trunk."""
        for prefix, replacement in self.prefixes:
            if key.startswith(prefix):
                name = replacement + key.removeprefix(prefix)
                name = from_detectron2(name) if self.is_detectron2 else name
                return name if _TRUNK.match(name) else None
        return None

    def group(self, key: str) -> str:
        """Name the part of the network that a tensor outside the trunk belongs to."""
        prefix = next((p for p, _ in self.prefixes if key.startswith(p)), "")
        return prefix + key.removeprefix(prefix).split(".")[0]

    def fits(self, keys: Collection[str]) -> bool:
        """Whether each marker is among the keys."""
        return all(any(re.fullmatch(marker, key) for key in keys) for marker in self.markers)


SSPRL = KeyTable(
    name="ssprl",
    files="released SS-PRL, with all heads",
    markers=(r"ptypes\.weight", r"conv1\.weight"),
    note="the released queues lie outside the checkpoint (queue.pth of each rank) and are not "
    "converted: queues start empty, counters at 0",
)
"""The trunk pads the image by 1 before a conv1 of padding 2; ours has padding 3, the same."""

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
    """Give our name of a tensor of released SS-PRL; an unknown one stays as it is."""
    name = SSPRL.trunk_name(key)
    if name is not None:
        return f"backbone.{name}"
    for pattern, ours, shift in _SSPRL_HEADS:
        found = re.match(pattern, key)
        if found:
            numbers = [int(number) + shift for number in found.groups()]
            return ours.format(*numbers) + key[found.end() :]
    return key


KEY_TABLES = (
    SSPRL,
    # Its trunk pads as that of ``SSPRL``.
    KeyTable(
        name="swav",
        files="SwAV, DeepCluster v2",
        markers=(r"prototypes\.(prototypes\d+\.)?weight", r"conv1\.weight"),
    ),
    KeyTable(
        name="moco",
        files="MoCo v1 and v2, trainings of the port shuuchen/DetCo.pytorch",
        markers=(r"encoder_q\.conv1\.weight",),
        prefixes=(("encoder_q.", ""),),
    ),
    KeyTable(
        name="densecl",
        files="DenseCL's training checkpoints",
        markers=(r"encoder_q\.0\.conv1\.weight", r"queue2"),
        prefixes=(("encoder_q.0.", ""),),
    ),
    # The backbone is held a second time as ``backbone``; ``encoder_q.1`` is the neck.
    KeyTable(
        name="openselfsup-moco",
        files="MoCo of OpenSelfSup and what builds on it (DetCo, MaskCo)",
        markers=(r"encoder_q\.0\.conv1\.weight",),
        prefixes=(("encoder_q.0.", ""),),
    ),
    # The online network is taken, and not its average, the target network.
    KeyTable(
        name="byol",
        files="BYOL of OpenSelfSup",
        markers=(r"online_net\.0\.conv1\.weight",),
        prefixes=(("online_net.0.", ""),),
    ),
    # A detector of mmdet 2 with momentum copies ``*_k``; C4 has the last stage in the shared head.
    KeyTable(
        name="insloc",
        files="InsLoc (FPN and C4)",
        markers=(r"backbone\.conv1\.weight", r"backbone_k\.conv1\.weight"),
        prefixes=(("roi_head.shared_head.", ""), ("backbone.", "")),
    ),
    KeyTable(
        name="backbone",
        files="OpenMMLab models (mmpretrain, mmselfsup, mmdet, mmseg)",
        markers=(r"backbone\.conv1\.weight",),
        prefixes=(("backbone.", ""),),
    ),
    # The names are bare in a converted backbone, and have a prefix in detectors with FPN or C4.
    KeyTable(
        name="detectron2",
        files="detectron2's backbones and detectors, .pkl or .pth",
        markers=(r"(backbone\.(bottom_up\.)?)?stem\.conv1\.weight",),
        prefixes=(
            *(("backbone.bottom_up.", ""), ("roi_heads.res5.", "res5.")),
            *(("backbone.", ""), ("", "")),
        ),
        is_detectron2=True,
        note="keys cannot tell torchvision's form (stride in the 3x3 convolution, RGB) from "
        "Caffe's (stride in the 1x1, BGR, pixel std 1): for Caffe's set backbone.style='caffe' "
        "and the preprocessor's mean and std in the config",
    ),
    KeyTable(
        name="torchvision",
        files="torchvision and timm, with the classifier",
        markers=(r"conv1\.weight", r"layer1\.0\.conv1\.weight", r"fc\.weight"),
    ),
    KeyTable(
        name="extracted",
        files="backbones alone under torchvision's names, as extracted from OpenSelfSup (MoCo, "
        "BYOL, DenseCL, DetCo)",
        markers=(r"conv1\.weight", r"layer1\.0\.conv1\.weight"),
    ),
)
"""All tables; a file has the first that fits, so those with more markers come first."""

SOURCES: dict[str, tuple[str, ...]] = {
    "ssprl": ("ssprl",),
    "swav": ("swav",),
    "moco": ("moco", "openselfsup-moco", "extracted"),
    # DeepMind's own files are pickles of JAX; converted by others, they have torchvision's names.
    "byol": ("byol", "backbone", "extracted"),
    "densecl": ("densecl", "backbone", "extracted"),
    # Published as extracted backbones; the training code, and so its checkpoints, never was.
    "detco": ("extracted", "moco", "openselfsup-moco", "backbone", "detectron2"),
    # No published file is known; assumed are the keys of the usual code bases.
    "maskco": ("moco", "openselfsup-moco", "backbone", "extracted"),
    "insloc": ("insloc", "backbone", "detectron2"),
    "torchvision": ("torchvision", "extracted"),
    "detectron2": ("detectron2",),
    "auto": tuple(table.name for table in KEY_TABLES),
}
"""Names of the tables that files of each source may have."""


def find_key_table(keys: Collection[str], source: str, *, file: str) -> KeyTable:
    """Find the table of a file by its keys, without ``module.``; it must be one of the source's."""
    if source not in SOURCES:
        raise UserValueError(
            f"the source must be one of {', '.join(SOURCES)}, but got {source!r}; "
            "'auto' looks at the keys."
        )
    table = next((each for each in KEY_TABLES if each.fits(keys)), None)
    if table is None:
        known = "; ".join(f"{each.name} ({each.files})" for each in KEY_TABLES)
        raise UserValueError(
            f"the keys must be those of a known project, but {file} has {len(keys)} keys that "
            f"begin {', '.join(list(keys)[:5])}; rename them to torchvision's. Known keys: {known}."
        )
    if table.name not in SOURCES[source]:
        raise UserValueError(
            f"a file of {source} must have the keys of {' or '.join(SOURCES[source])}, but {file} "
            f"has those of {table.name}; give the source 'auto' (--from auto)."
        )
    return table
