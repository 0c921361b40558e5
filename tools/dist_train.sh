#!/usr/bin/env bash
# Train on several processes of one or more machines, one process per GPU (or CPU process).
#
# usage: bash tools/dist_train.sh CONFIG PROCESSES [arguments of tools/train.py]
#
# environment: PORT (default: a free one), NNODES (1), NODE_RANK (0), MASTER_ADDR (127.0.0.1), PYTHON
#
# examples:
#   bash tools/dist_train.sh configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py 2 --amp
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 PORT=29500 bash tools/dist_train.sh CONFIG 8

source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
usage_unless 2 "$@"
CONFIG="$1" PROCESSES="$2"
run_torch "$PROCESSES" train.py "$CONFIG" "${@:3}"
