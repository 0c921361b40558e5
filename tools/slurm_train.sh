#!/usr/bin/env bash
# Train on a Slurm cluster, one task per GPU.
#
# usage: bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG [arguments of tools/train.py]
#
# environment:
#   GPUS (default 8), GPUS_PER_NODE (GPUS, at most 8), or CPU_TASKS for nodes without GPUs
#   CPUS_PER_TASK (5), PORT (by the job's number), PYTHON
#   BATCH=1 submits a job that saves, and is resumed after its time limit or a preemption
#   SAVE_BEFORE (120): seconds before the time limit at which it saves
#   SRUN_ARGS: more options of srun, and of sbatch with BATCH=1
#
# examples:
#   GPUS=2 SRUN_ARGS="--time=48:00:00" bash tools/slurm_train.sh gpu ssprl \
#       configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py --amp --resume
#   BATCH=1 GPUS=2 SRUN_ARGS="--time=4:00:00" bash tools/slurm_train.sh gpu ssprl CONFIG --amp

source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage_unless 3 "$@"
PARTITION="$1" JOB_NAME="$2" CONFIG="$3"
run_slurm "$PARTITION" "$JOB_NAME" train.py "$CONFIG" "${@:4}"
