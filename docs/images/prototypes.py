"""Draw prototype_map.svg and prototype_parts.jpg: what the prototypes of a run became.

    make figures
    python docs/images/prototypes.py work_dirs/figures/run

The run takes four minutes on two cores. Its images are generated: all pictures are ours.
"""

import sys
from pathlib import Path

from mmssprl.reporting.assignments import Assignments, run_images
from mmssprl.reporting.pictures.prototype_map import draw_prototype_map
from mmssprl.reporting.pictures.prototypes import draw_prototype_parts
from mmssprl.reporting.run import read_run

FOLDER = Path(__file__).parent


def main(work_dir: str) -> None:
    """Write both pictures next to this script."""
    found = Assignments.of_run(work_dir, run_images(read_run(work_dir).cfg))
    draw_prototype_map(found).savefig(FOLDER / "prototype_map.svg", dpi=100)
    most = int(found.counts(0).argmax())
    parts = draw_prototype_parts(found, most, scale=2)
    parts.savefig(FOLDER / "prototype_parts.jpg", dpi=110, pil_kwargs={"quality": 88})


if __name__ == "__main__":
    main(sys.argv[1])
