"""Compare pre-training methods: `compare`, and `demo`, a small comparison."""

import re
from pathlib import Path

from ..console.options import given_options
from ..console.wording import wrapped
from ..experiments.options import CompareOptions, DemoOptions
from ..system.commands import command_line
from ._command import Command


class CompareCommand(Command, CompareOptions):
    """Compare pre-training methods side by side.

    Pre-train each method on the training images of a labelled folder, without their
    labels, over seeds, for equal epochs, time or FLOPs, and probe its frozen features.
    Without --data the images are generated scenes. The same command resumes; later calls
    can add methods and seeds to the same work dir.

    examples:
      python -m mmssprl compare
      python -m mmssprl compare --data photos --methods all --seeds 5 --equal time flops --tune
      python -m mmssprl compare --data photos --methods ssprl my_config.py
      python -m mmssprl compare --data photos --methods swav distill:dense_weight=0 rows.yaml
    """

    def run(self) -> int:
        """Run a comparison; its report quotes the options that matter, without local folders."""
        words = ["compare"]
        for name in given_options(self):
            if name not in ("work_dir", "jobs", "dry_run"):
                value = getattr(self, name)
                values = [] if value is True else [value] if isinstance(value, str | int) else value
                words += [f"--{name}", *map(_without_folder, map(str, values))]
        return _run(self, command_line(*words))


_MEANING = (
    "What it means: pre-training works here if the other rows are above random weights. 1,200 "
    "generated scenes with few seeds do not say which method is better; docs/compare.md has "
    "photographs. Type the next line for your own, with their folder."
)


class DemoCommand(Command, DemoOptions):
    """See SS-PRL learn on sample data.

    Generate scenes, pre-train a small ResNet by SS-PRL and by SwAV for equal time, and
    probe them and random weights: `compare` in a few minutes on two cores.

    examples:
      python -m mmssprl demo
      python -m mmssprl demo --work-dir work_dirs/demo --seeds 1
    """

    def run(self) -> int:
        """Run the comparison."""
        asked = CompareOptions(
            methods=("random", "swav-small", "ssprl", "ssprl-small-sampled"),
            seeds=self.seeds,
            equal=("time",),
            epochs=6,
            size="scenes",
            work_dir=self.work_dir,
        )
        failed = _run(asked, command_line("demo", "--seeds", str(self.seeds)), batch_size=32)
        if not failed:
            print(f"\n{wrapped(_MEANING, indent=0)}")
            print(f"next: {command_line('pretrain', 'photos/', '--backbone', 'resnet18')}")
        return failed


def _without_folder(word: str) -> str:
    """Leave out the folder of a file, and the folders of absolute paths in a row's values."""
    if "=" in word:
        return re.sub(r"(?<==)/[^,]*/", "", word)
    return Path(word).name


def _run(asked: CompareOptions, command: str, batch_size: int = 64) -> int:
    from ..experiments.compare.start import Comparison

    comparison = Comparison(asked, batch_size=batch_size, command=command)
    return int(comparison.start(dry_run=asked.dry_run) > 0)
