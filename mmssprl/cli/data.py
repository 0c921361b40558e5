"""Generate data and check the installation: `scenes` and `doctor`."""

from .._dependencies import check_dependencies
from ..console.options import argument, option
from ._command import Command


class ScenesCommand(Command):
    """Generate the sample data: drawn scenes with boxes, masks and labels.

    Draw multi-object scenes, the same for the same arguments, and write them to
    OUT/coco and OUT/voc. Finished data of the same arguments is reused.

    examples:
      python -m mmssprl scenes data/scenes
      python -m mmssprl scenes data/scenes256 --num-train 5000 --num-val 1000 --image-px 256
    """

    out_dir: str = argument("folder to write to")
    num_train: int = option("training images", default=1000)
    num_val: int = option("validation images", default=400)
    image_px: int = option("side of the square images, 64 to 640", default=128)
    seed: int = option("random seed", default=0)

    def run(self) -> None:
        """Generate the scenes."""
        from ..datasets.scenes import generate_scenes

        root = generate_scenes(
            self.out_dir,
            num_train=self.num_train,
            num_val=self.num_val,
            size_px=self.image_px,
            seed=self.seed,
        )
        counts = f"{self.num_train} training and {self.num_val} validation images"
        print(f"{counts} in {root}/{{coco,voc}}")


class DoctorCommand(Command):
    """Check this installation.

    Print versions, OpenMMLab's packages and devices. If something is missing, print the
    command that installs it; the exit code is 1.

    example:
      python -m mmssprl doctor
    """

    def run(self) -> int:
        """Print what is found."""
        try:
            check_dependencies()
        except RuntimeError as error:
            print(error)
            return 1
        from mmengine.device import get_device
        from mmengine.utils.dl_utils import collect_env

        from ..system.environment import describe_environment

        found = collect_env() | describe_environment(get_device())["packages"]
        for name in ("PyTorch compiling details", "numpy_random_seed"):
            found.pop(name, None)
        print("\n".join(f"{name}: {value}" for name, value in found.items()))
        print("\nall requirements are installed.")
        return 0
