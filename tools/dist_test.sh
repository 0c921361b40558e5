#!/usr/bin/env bash
# Test a checkpoint on several processes of one or more machines.
#
# usage: bash tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [arguments of tools/test.py]
#
# environment: PORT (default: a free one), NNODES (1), NODE_RANK (0), MASTER_ADDR (127.0.0.1), PYTHON
#
# example:
#   bash tools/dist_test.sh CONFIG work_dirs/a/epoch_100.pth 8

source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage_unless 3 "$@"
CONFIG="$1" CHECKPOINT="$2" PROCESSES="$3"
run_torch "$PROCESSES" test.py "$CONFIG" "$CHECKPOINT" "${@:4}"
