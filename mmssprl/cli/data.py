"""Generate data and check the installation: `scenes` and `doctor`."""

import argparse

from .._dependencies import check_dependencies
from ..console.tables import aligned_pairs
from ._command import Command

_SCENES = """\
Generate the sample data: drawn scenes with boxes, masks and labels.

Draw multi-object scenes, the same for the same arguments, and write them to
OUT/coco and OUT/voc. Finished data of the same arguments is reused; nothing
else is overwritten.

example, 1,400 images of 128 px in COCO and PASCAL VOC layout:
  python -m mmssprl scenes data/scenes

a larger set:
  python -m mmssprl scenes data/scenes256 --num-train 5000 --num-val 1000 --image-px 256 --seed 1
"""


def _add_scenes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    px = "side of the square images in pixels, 64 to 640 (default: %(default)s)"
    add("out_dir", metavar="OUT", help="folder to write to")
    add("--num-train", type=int, default=1000, help="training images (default: %(default)s)")
    add("--num-val", type=int, default=400, help="validation images (default: %(default)s)")
    add("--image-px", type=int, default=128, metavar="PX", help=px)
    add("--seed", type=int, default=0, help="random seed (default: %(default)s)")


def _scenes(args: argparse.Namespace) -> int:
    from ..datasets.scenes import generate_scenes

    root = generate_scenes(
        args.out_dir,
        num_train=args.num_train,
        num_val=args.num_val,
        size_px=args.image_px,
        seed=args.seed,
    )
    print(f"{args.num_train} training and {args.num_val} validation images in {root}/{{coco,voc}}")
    return 0


_DOCTOR = """\
Check this installation.

Print versions, OpenMMLab's packages and devices, or what is missing with the command
that gets it; then the exit code is 1.

example:
  python -m mmssprl doctor
"""


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: it looks at everything."""


def _doctor(args: argparse.Namespace) -> int:
    try:
        check_dependencies()
    except RuntimeError as error:
        print(error)
        return 1
    from mmengine.device import get_device
    from mmengine.utils.dl_utils import collect_env

    from ..system.environment import describe_environment

    found = collect_env()
    for name in ("PyTorch compiling details", "numpy_random_seed"):
        found.pop(name, None)
    found |= describe_environment(get_device())["packages"]
    print(aligned_pairs({name: str(value) for name, value in found.items()}))
    print("\neverything that is needed is here.")
    return 0


COMMANDS = {
    "scenes": Command(_SCENES, _add_scenes, _scenes),
    "doctor": Command(_DOCTOR, _add_doctor, _doctor),
}
