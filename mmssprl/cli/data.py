"""Generate data and check the installation: `scenes` and `doctor`."""

from .._dependencies import check_dependencies
from ..console.options import Options, argument, option
from ._command import Command

_SCENES = """\
Generate the sample data: drawn scenes with boxes, masks and labels.

Draw multi-object scenes, the same for the same arguments, and write them to
OUT/coco and OUT/voc. Finished data of the same arguments is reused.

examples:
  python -m mmssprl scenes data/scenes
  python -m mmssprl scenes data/scenes256 --num-train 5000 --num-val 1000 --image-px 256 --seed 1
"""


class _Scenes(Options):
    out_dir: str = argument("folder to write to")
    num_train: int = option("training images", default=1000)
    num_val: int = option("validation images", default=400)
    image_px: int = option("side of the square images, 64 to 640", default=128)
    seed: int = option("random seed", default=0)


def _scenes(args: _Scenes) -> None:
    from ..datasets.scenes import generate_scenes

    root = generate_scenes(
        args.out_dir,
        num_train=args.num_train,
        num_val=args.num_val,
        size_px=args.image_px,
        seed=args.seed,
    )
    print(f"{args.num_train} training and {args.num_val} validation images in {root}/{{coco,voc}}")


_DOCTOR = """\
Check this installation.

Print versions, OpenMMLab's packages and devices. If something is missing, print the
command that installs it; the exit code is 1.

example:
  python -m mmssprl doctor
"""


def _doctor(_: Options) -> int:
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
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print("\nall requirements are installed.")
    return 0


COMMANDS = {
    "scenes": Command(_SCENES, _Scenes, _scenes),
    "doctor": Command(_DOCTOR, Options, _doctor),
}
