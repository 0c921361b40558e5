"""The Semantic Boundaries Dataset (SBD) as additional labels for the segmentation of VOC2012."""

from pathlib import Path

from mmssprl.preparation.label_images import (
    check_size,
    read_mat_labels,
    read_png_labels,
    write_png_labels,
)
from mmssprl.preparation.voc_files import find_devkit, read_names

from ..console.progress import watch
from ..console.wording import command_line
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..system.outputs import write_whole

SBD_SPLITS = {"train": 8_498, "val": 2_857}
NUM_TRAIN_AUG = 10_582
LIST_FILE = "ImageSets/Segmentation/train_aug.txt"
LABEL_FOLDER = "SegmentationClassAug"


def convert(root: Path, *, any_size: bool = False) -> int:
    """Write the label images and the list of train_aug: (SBD + VOC train) without VOC val.

    VOC's own labels are taken where there are any. Finished label images are kept, so that a
    conversion that was cut off goes on; the list is written last.

    Args:
        root: Holds ``VOCdevkit/VOC2012``, or is ``VOCdevkit`` or ``VOC2012``.
        any_size: Whether another number of images than 10,582 is right too.

    Returns:
        How many label images were written.

    Raises:
        FileNotFoundError: No SBD, a list, an image or its labels are missing.
        FileExistsError: ``train_aug.txt`` is there and names other images.
        ValueError: Another number of images, or labels that are none or of another size.
    """
    voc = find_devkit(root, "VOC2012")
    sbd = find_sbd(root, voc)
    if sbd is None:
        raise UserFileNotFoundError(
            f"SBD must be in {root} as benchmark_RELEASE/dataset, but is not; `"
            f"{command_line('prepare', 'voc12aug', root, '--check-only')}` prints the commands "
            "that fetch it."
        )
    own = set(_require_names(voc / "ImageSets/Segmentation/train.txt"))
    val = set(_require_names(voc / "ImageSets/Segmentation/val.txt"))
    added = {name for split in SBD_SPLITS for name in _require_names(sbd / f"{split}.txt")}
    names = sorted((own | added) - val)
    if not any_size and len(names) != NUM_TRAIN_AUG:
        raise UserValueError(
            f"train_aug must have {NUM_TRAIN_AUG:,} images, but the lists of VOC2012 and SBD give "
            f"{len(names):,}; unpack both again, or pass --any-size if that is meant."
        )
    listing = voc / LIST_FILE
    if listing.exists() and read_names(listing) != names:
        raise UserFileExistsError(
            f"{listing} must be absent or name the {len(names):,} images that the lists of VOC2012 "
            "and SBD give, but names others; move it away."
        )
    folder = voc / LABEL_FOLDER
    folder.mkdir(exist_ok=True)
    written = 0
    for name in watch(names, "writing label images"):
        target = folder / f"{name}.png"
        if target.exists():
            continue
        if name in own:
            source = voc / "SegmentationClass" / f"{name}.png"
            labels = read_png_labels(source)
        else:
            source = sbd / "cls" / f"{name}.mat"
            labels = read_mat_labels(source)
        check_size(labels, source, voc / "JPEGImages" / f"{name}.jpg")
        write_png_labels(labels, target)
        written += 1
    if not listing.exists():
        write_whole(listing, "".join(f"{name}\n" for name in names))
    return written


def find_sbd(root: Path, voc: Path) -> Path | None:
    """Return SBD's folder with ``cls`` and the lists, or None if there is none near."""
    devkit = voc.absolute().parent  # "." has no parent
    for base in (root, devkit.parent, devkit, devkit / "VOCaug"):
        for folder in (base / "benchmark_RELEASE" / "dataset", base / "dataset"):
            if (folder / "cls").is_dir():
                return folder
    return None


def _require_names(path: Path) -> list[str]:
    names = read_names(path)
    if not names:
        raise UserFileNotFoundError(
            f"{path} must be a list of images, but is absent or empty; unpack its archive again."
        )
    return names
