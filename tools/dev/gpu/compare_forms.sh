#!/usr/bin/env bash
# Forms of SS-PRL beside SwAV on photographs, at equal epochs, in 40 minutes of one GPU with 16 cores:
#   bash tools/dev/gpu/compare_forms.sh PHOTOS [more options of compare]
set -euo pipefail
photos=$(realpath "$1")
cd "$(dirname "$0")/../../.."
exec python -m mmssprl compare --data "$photos" --size photos-gpu --budget epochs --epochs 30 \
    --seeds 5 --jobs 12 --reference swav-small --work-dir work_dirs/compare_forms --methods \
    swav-small ssprl-small-sampled ssprl-cells ssprl-small tools/dev/gpu/ssprl-small-larc.py "${@:2}"
