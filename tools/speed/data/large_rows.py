"""The gates of large data, as rows: start-up, memory of workers, packed files."""

from collections.abc import Callable
from pathlib import Path

import large_data
from measure import Row

_NUM_IMAGES = 1_280_000
"""As many as ImageNet has."""

_NUM_QUICK = 50_000
_GROWTH_BYTES = 1.0
"""Gate of "no growth", per look-up: some pages are noise, a copied str is 50 bytes and more."""


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Measure with empty files in a temporary folder, and with the photographs.

    Args:
        images: Folder of photographs, for the packed file.
        quick: Fewer files; the start-up then has no gate.
        log: Receives a line before each part.
    """
    num_images = _NUM_QUICK if quick else _NUM_IMAGES
    log(f"start-up: making and listing {num_images:,} empty files")
    startup = large_data.startup_seconds(num_images)
    log(f"memory of a worker with {num_images:,} paths")
    growth = large_data.worker_growth(num_images)
    log("packed file against folder")
    packed = large_data.packed_against_folder(images)
    files = f"start-up with {num_images:,} images"
    warm = "By the clock, with the folders in memory; a cold disk or a network drive takes longer."

    def start(row_id: str, what: str, key: str, gate: float | None = None) -> Row:
        bound = None if quick else gate
        what = f"{files}, {what}"
        return Row(row_id, what, startup[key], "s", gate=bound, better="lower", note=warm)

    return [
        start("start_folder", "from the folder", "folder_s", 10),
        start("start_cached", "with the cached index", "cached_s", 2),
        start("start_list", "from a text file", "list_s"),
        Row(
            "worker_growth",
            "growth of a worker's own memory per path that it reads",
            growth["growth_per_read"],
            "bytes",
            gate=_GROWTH_BYTES,
            better="lower",
            note=f"{num_images:,} paths take {growth['path_bytes'] / 2**20:.0f} MiB once, shared "
            "by all workers.",
        ),
        Row(
            "worker_growth_str",
            "the same with a plain list of str",
            growth["str_growth_per_read"],
            "bytes",
            better="lower",
        ),
        Row(
            "packed_ratio",
            "packed file against folder, reading and decoding",
            packed["packed_over_folder"],
            "x",
            better="lower",
            spread=(packed["low"], packed["high"]),
            note=f"{packed['packed_ms']:.2f} against {packed['folder_ms']:.2f} ms of CPU time per "
            "image, files in memory; packing helps where opening files is slow.",
        ),
        Row(
            "packed_read_ratio",
            "the same without decoding",
            packed["packed_over_folder_read"],
            "x",
            better="lower",
        ),
    ]
