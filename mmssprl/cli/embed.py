"""Write the features of photographs into a file.

Run the frozen backbone over all images of DIR, a folder (searched recursively) or a
tar file, and write their features with their names: the features that `probe`
scores. --patches embeds a patch of each of the pyramid's cells too, from the same
decoded image, at the scale of training, with their boxes. A stopped run goes on where
it was when the same command is given again; unreadable images are left out and listed
in OUT.unreadable.txt. docs/embeddings.md tells what to do with the file.

examples:
  python -m mmssprl embed work_dirs/pretrain_photos/ssprl_resnet18_backbone.pth photos/ photos.npz
  python -m mmssprl embed supervised photos/ cells.parquet --patches --num-workers 8
"""

import argparse
import sys
from pathlib import Path

from ..console.wording import command_line
from ._options import add_feature_options, feature_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add_weights(parser)
    add("dir", metavar="DIR", help="folder of images or of .tar files, or one .tar file")
    add("out", metavar="OUT", help="file to write: .npz, .csv or .parquet (needs pyarrow)")
    add(
        "--patches",
        action="store_true",
        help="embed a patch of each cell of the config's pyramid beside the whole images",
    )
    add_feature_options(parser)
    add("--force", action="store_true", help="replace an existing file, or what is left of another")


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Add the weights, which ``neighbors`` takes too."""
    parser.add_argument(
        "weights",
        metavar="WEIGHTS",
        help="backbone weights of pretrain, export or convert, a training checkpoint, 'random', or "
        "'supervised' (torchvision's, for ResNets)",
    )


def run(args: argparse.Namespace) -> int:
    """Embed; 130 if it was stopped."""
    from ..features.embedding import embed_to_file
    from ..features.extract import FeatureOptions

    options = FeatureOptions(**feature_options(args))
    try:
        embed_to_file(
            args.weights, args.dir, args.out, options, patches=args.patches, force=args.force
        )
    except KeyboardInterrupt:
        print("stopped; the same command goes on with it.", file=sys.stderr)
        return 130
    command = ["neighbors", args.weights, "QUERY", args.dir]
    command += ["--config", args.config] if args.config else []
    command += ["--image-px", str(args.image_px)] if args.image_px else []
    command += ["--seed", str(args.seed)] if args.seed else []
    command += ["--embeddings", args.out] if Path(args.out).suffix != ".csv" else []
    print(f"next: {command_line(*command, '--out', 'rows.png')}")
    return 0
