# Sourced by dist_train.sh, dist_test.sh, slurm_train.sh and slurm_test.sh.
set -euo pipefail

# What was typed, for the line that says how to go on with a training.
export MMSSPRL_COMMAND="$(printf '%q ' bash "$0" "$@")"
TOOLS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
PYTHON="${PYTHON:-python}"

# Print the comment on top of the calling script: to stdout for --help, else to stderr and fail.
usage_unless() {  # NEEDED_ARGS ARGS...
    local needed="$1" text
    shift
    text="$(sed -n '2,/^$/s/^# \{0,1\}//p' "$0")"
    case "${1:-}" in -h | --help) echo "$text"; exit 0 ;; esac
    if [ "$#" -lt "$needed" ]; then
        echo "$text" >&2
        exit 2
    fi
}

free_port() {
    "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

# Several nodes have to agree on the port, so only a single node may choose a free one.
run_torch() {  # PROCESSES SCRIPT ARGS...
    local processes="$1" script="$2" port="${PORT:-}"
    shift 2
    if ! [[ "$processes" =~ ^([1-9][0-9]*|auto|gpu|cpu)$ ]]; then
        echo "$(basename "$0"): error: PROCESSES must be at least 1, but got '$processes'." >&2
        exit 2
    fi
    if [ -z "$port" ]; then
        if [ "${NNODES:-1}" -gt 1 ]; then port=29500; else port="$(free_port)"; fi
    fi
    exec "$PYTHON" "$TOOLS/launch.py" \
        --nnodes="${NNODES:-1}" --node_rank="${NODE_RANK:-0}" --nproc_per_node="$processes" \
        --master_addr="${MASTER_ADDR:-127.0.0.1}" --master_port="$port" \
        "$TOOLS/$script" "$@" --launcher pytorch
}

run_slurm() {  # PARTITION JOB_NAME SCRIPT ARGS...
    local partition="$1" job="$2" script="$3" gpus="${GPUS:-8}" per_node
    shift 3
    per_node="${GPUS_PER_NODE:-$((gpus < 8 ? gpus : 8))}"
    # Jobs that share a node must not share a port; srun passes the environment on.
    export MASTER_PORT="${PORT:-$((20000 + RANDOM % 10000))}"
    # SRUN_ARGS is a list of words.
    # shellcheck disable=SC2086
    exec srun --partition="$partition" --job-name="$job" --gres="gpu:$per_node" \
        --ntasks="$gpus" --ntasks-per-node="$per_node" --cpus-per-task="${CPUS_PER_TASK:-5}" \
        --kill-on-bad-exit=1 ${SRUN_ARGS:-} \
        "$PYTHON" -u "$TOOLS/$script" "$@" --launcher slurm
}
