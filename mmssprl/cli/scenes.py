"""Generate the sample data: drawn scenes with boxes, masks and labels.

Draw multi-object scenes, the same for the same arguments, and write them to
OUT_DIR/coco and OUT_DIR/voc. Finished data of the same arguments is reused; nothing
else is overwritten.

example, 1,400 images of 128 px in COCO and PASCAL VOC layout:
  python -m mmssprl scenes data/scenes

a smaller and a larger set:
  python -m mmssprl scenes data/scenes96 --num-train 200 --num-val 100 --size 96
  python -m mmssprl scenes data/scenes256 --num-train 5000 --num-val 1000 --size 256 --seed 1
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("out_dir", metavar="OUT_DIR", help="folder to write to")
    add("--num-train", type=int, default=1000, help="training images (default: %(default)s)")
    add("--num-val", type=int, default=400, help="validation images (default: %(default)s)")
    add(
        "--size",
        type=int,
        default=128,
        metavar="PX",
        help="side of the square images in pixels, 64 to 640 (default: %(default)s)",
    )
    add("--seed", type=int, default=0, help="random seed (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Write the data set; returns 0."""
    from mmssprl.datasets.scenes import generate_scenes

    root = generate_scenes(
        args.out_dir,
        num_train=args.num_train,
        num_val=args.num_val,
        size_px=args.size,
        seed=args.seed,
    )
    print(f"{args.num_train} training and {args.num_val} validation images in {root}/{{coco,voc}}")
    return 0
