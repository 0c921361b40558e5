"""Labels by folders: the images below a folder are of the class that it is named after."""

from pathlib import Path

import torch

from ..datasets.image_index import IMAGE_SUFFIXES, index_images
from ..errors import UserFileNotFoundError, UserValueError

FOLDER_SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "test", "testing"),
}
"""Names of the folders that are fitted and tested on, in any case; of several the first counts."""
TEST_SHARE = 0.2
"""Share of each class that is tested on where the folders name no split."""

Listing = tuple[list[str], list[int]]
"""Paths of images, and the class of each as an index."""


def has_class_folders(root: Path) -> bool:
    """Whether ``root`` holds images in folders, or the folders train and val."""
    return any(len(index_images(str(folder)).names) for folder in _folders(root))


def list_class_folders(root: Path, *, seed: int = 0) -> tuple[list[str], Listing, Listing, str]:
    """List the images of each class, for fitting and for testing.

    Either ``root/train/CLASS/**`` and ``root/val/CLASS/**`` (or another of ``FOLDER_SPLITS``), or
    ``root/CLASS/**`` alone, of which a fifth of each class is drawn for testing. Classes are sorted
    by name; images are searched for in all folders below, without hidden ones.

    Args:
        root: The folder.
        seed: Of the draw.

    Returns:
        The classes, the listings for fitting and for testing, and how they were told apart.

    Raises:
        FileNotFoundError: One of the folders train and val is missing.
        ValueError: Fewer than two classes, classes without images or with too few to divide, an
            image of no class, or splits of different classes.
    """
    by_name = {folder.name.lower(): folder for folder in _folders(root)}
    splits = [
        next((by_name[name] for name in names if name in by_name), None)
        for names in FOLDER_SPLITS.values()
    ]
    found = [split for split in splits if split is not None]
    if found:
        if len(found) == 1:
            missing = root / list(FOLDER_SPLITS)[splits.index(None)]
            raise UserFileNotFoundError(
                f"DATA with a folder per class must have both {' and '.join(FOLDER_SPLITS)} or "
                f"neither, but there is no {missing}; add it, or pass the folder of the classes, "
                f"{found[0]}."
            )
        train, test = (_list_classes(split) for split in found)
        if list(train) != list(test):
            raise UserValueError(
                f"both splits must have the same classes, but {splits[0]} has {len(train)} and "
                f"{splits[1]} {len(test)} of them (differing in "
                f"{sorted(set(train) ^ set(test))[:3]}); make the folders agree."
            )
        how = f"its folders {found[0].name} and {found[1].name}"
        return list(train), _join(train), _join(test), how
    train, test = _divide(root, _list_classes(root), seed)
    how = f"{TEST_SHARE:.0%} of each class drawn for testing, with seed {seed}"
    return list(train), _join(train), _join(test), how


def _list_classes(root: Path) -> dict[str, list[str]]:
    """The images of each class, by the class's name, both sorted."""
    loose = [path.name for path in root.iterdir() if path.is_file() and _is_image(path)]
    if loose:
        raise UserValueError(
            f"every image must lie in the folder of its class, but {len(loose)} lie directly in "
            f"{root} (first {min(loose)}); move or remove them."
        )
    classes = {
        folder.name: [f"{folder}/{name}" for name in index_images(str(folder)).names]
        for folder in _folders(root)
    }
    empty = [name for name, paths in classes.items() if not paths]
    if empty or len(classes) < 2:
        raise UserValueError(
            "DATA with a folder per class must have at least two of them with images in each, but "
            f"{root} has {len(classes)}, of which {len(empty)} are empty {empty[:3]}; correct "
            "the path, or remove the empty ones."
        )
    return classes


def _divide(
    root: Path, classes: dict[str, list[str]], seed: int
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    generator = torch.Generator().manual_seed(seed)
    train, test = {}, {}
    for name, paths in classes.items():
        if len(paths) < 2:
            raise UserValueError(
                f"every class must have at least 2 images, to fit and to test on, but "
                f"{root / name} has 1; add images, or remove the class."
            )
        order = torch.randperm(len(paths), generator=generator).tolist()
        num_test = max(1, round(TEST_SHARE * len(paths)))
        train[name] = [paths[i] for i in sorted(order[num_test:])]
        test[name] = [paths[i] for i in sorted(order[:num_test])]
    return train, test


def _join(classes: dict[str, list[str]]) -> Listing:
    pairs = [(path, k) for k, paths in enumerate(classes.values()) for path in paths]
    return [path for path, _ in pairs], [k for _, k in pairs]


def _folders(root: Path) -> list[Path]:
    visible = (path for path in root.iterdir() if not path.name.startswith("."))
    return sorted((path for path in visible if path.is_dir()), key=lambda path: path.name)


def _is_image(path: Path) -> bool:
    return not path.name.startswith(".") and path.name.lower().endswith(IMAGE_SUFFIXES)
