#!/usr/bin/env bash
# Test a checkpoint on a Slurm cluster, one task per GPU.
#
# usage: bash tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [arguments of tools/test.py]
#
# environment: GPUS (default 8), GPUS_PER_NODE (GPUS, at most 8), or CPU_TASKS for nodes without
#   GPUs; CPUS_PER_TASK (5), PORT (by the job's number), SRUN_ARGS (more options of srun), PYTHON
#
# example:
#   GPUS=4 bash tools/slurm_test.sh gpu ssprl-test CONFIG work_dirs/a/epoch_100.pth

unset BATCH  # nothing to resume
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage_unless 4 "$@"
PARTITION="$1" JOB_NAME="$2" CONFIG="$3" CHECKPOINT="$4"
run_slurm "$PARTITION" "$JOB_NAME" test.py "$CONFIG" "$CHECKPOINT" "${@:5}"
