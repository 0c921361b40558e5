"""The steps of `prepare`: look, convert what can be converted now, and look again."""

from collections.abc import Callable
from pathlib import Path

from mmssprl.preparation import coco, imagenet, voc07, voc12aug
from mmssprl.preparation.finding import Finding

from ..errors import UserFileNotFoundError

DATA_SETS = {"coco": coco, "voc07": voc07, "voc12aug": voc12aug, "imagenet": imagenet}


def prepare(
    name: str,
    root: Path,
    *,
    any_size: bool = False,
    check_only: bool = False,
    log: Callable[[str], object] = print,
) -> list[Finding]:
    """Look for the pieces of a data set, and make those that can be made of the others.

    Args:
        name: Key of ``DATA_SETS``.
        root: Its folder, which need not be there.
        any_size: Other numbers of images than the official ones are right too.
        check_only: Make nothing.
        log: Receives a line about what was made.

    Raises:
        FileNotFoundError: ``root`` is a file.
    """
    if root.exists() and not root.is_dir():
        raise UserFileNotFoundError(f"DIR must be a folder, but {root} is a file; pass its folder.")
    findings = DATA_SETS[name].check(root, any_size=any_size)
    if name == "voc12aug" and not check_only and voc12aug.ready(findings):
        written = voc12aug.convert(root, any_size=any_size)
        log(f"converted: {written:,} label images written\n")
        findings = voc12aug.check(root, any_size=any_size)
    return findings
