#!/usr/bin/env bash
# Train on a SLURM cluster, one task per GPU.
#
# usage: bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG [arguments of tools/train.py]
#
# environment: GPUS (default 8), GPUS_PER_NODE (GPUS, at most 8), CPUS_PER_TASK (5), SRUN_ARGS,
#   PORT (a random one), PYTHON
#
# example:
#   GPUS=2 SRUN_ARGS="--time=48:00:00" bash tools/slurm_train.sh gpu ssprl \
#       configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py --amp --resume

source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage_unless 3 "$@"
PARTITION="$1" JOB_NAME="$2" CONFIG="$3"
run_slurm "$PARTITION" "$JOB_NAME" train.py "$CONFIG" "${@:4}"
