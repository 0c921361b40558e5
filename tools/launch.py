"""Start train.py or test.py in several processes, with the arguments of torchrun."""

import sys
from pathlib import Path

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    from mmssprl.errors import UserError
    from mmssprl.system.processes import run_processes
    from mmssprl.system.stopping import end_with_experiment

    end_with_experiment()
    try:
        run_processes(sys.argv[1:])
    except UserError as error:
        tool = next(Path(word).name for word in sys.argv[1:] if word.endswith(".py"))
        sys.exit(f"{tool}: error: {error}")
