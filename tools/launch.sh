# Sourced by dist_train.sh, dist_test.sh, slurm_train.sh and slurm_test.sh.
set -euo pipefail

# What was typed, for the line that says how to resume a training.
SETTINGS=(BATCH CPU_TASKS CPUS_PER_TASK GPUS GPUS_PER_NODE MASTER_ADDR NNODES NODE_RANK PORT PYTHON
    SAVE_BEFORE SRUN_ARGS)
MMSSPRL_COMMAND=""
for name in "${SETTINGS[@]}"; do
    if [ -n "${!name:-}" ]; then MMSSPRL_COMMAND+=" $(printf '%q' "$name=${!name}")"; fi
done
export MMSSPRL_COMMAND="${MMSSPRL_COMMAND:+env$MMSSPRL_COMMAND }$(printf '%q ' bash "$0" "$@")"
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
    if ! [[ "$processes" =~ ^[1-9][0-9]*$ ]]; then
        echo "$(basename "$0"): error: PROCESSES must be at least 1, but got '$processes'." >&2
        exit 2
    fi
    if [ "${NODE_RANK:-0}" -gt 0 ] && [ -z "${MASTER_ADDR:-}" ]; then
        echo "$(basename "$0"): error: NODE_RANK=$NODE_RANK needs MASTER_ADDR, the address of the" \
            "node with NODE_RANK=0; the default 127.0.0.1 is this node." >&2
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

# Start the tasks and wait for them; with BATCH=1 submit a job that does, and that is resumed
# after its time limit or a preemption.
run_slurm() {  # PARTITION JOB_NAME SCRIPT ARGS...
    local partition="$1" job="$2" script="$3" gpus="${GPUS:-8}" per_node
    shift 3
    local resources=("--partition=$partition" "--job-name=$job")
    if [ -n "${CPU_TASKS:-}" ]; then
        resources+=("--ntasks=$CPU_TASKS")
    else
        per_node="${GPUS_PER_NODE:-$((gpus < 8 ? gpus : 8))}"
        resources+=("--gres=gpu:$per_node" "--ntasks=$gpus" "--ntasks-per-node=$per_node")
    fi
    local step=("--cpus-per-task=${CPUS_PER_TASK:-5}" --kill-on-bad-exit=1)
    local command=("$PYTHON" -u "$TOOLS/$script" "$@" --launcher slurm)
    if [ -n "${PORT:-}" ]; then export MASTER_PORT="$PORT"; fi
    # SRUN_ARGS is a list of words.
    # shellcheck disable=SC2086
    if [ -z "${BATCH:-}" ]; then
        exec srun "${resources[@]}" "${step[@]}" ${SRUN_ARGS:-} "${command[@]}"
    fi
    if [[ " $* " =~ \ --resume(=|\ [^-]) ]]; then
        echo "$(basename "$0"): error: BATCH=1 resumes from the newest checkpoint of the work dir;" \
            "give --resume no CHECKPOINT." >&2
        exit 2
    fi
    if [[ " $* " =~ \ --overwrite\  ]]; then
        echo "$(basename "$0"): error: BATCH=1 resumes the run in the work dir, which --overwrite" \
            "would delete; leave one out." >&2
        exit 2
    fi
    # shellcheck disable=SC2086
    MMSSPRL_REQUEUE=1 exec sbatch "${resources[@]}" "${step[0]}" --requeue --open-mode=append \
        "--signal=USR1@${SAVE_BEFORE:-120}" ${SRUN_ARGS:-} \
        --wrap "exec srun $(printf '%q ' "${step[@]}" "${command[@]}" --resume)"
}
