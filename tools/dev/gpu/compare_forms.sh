#!/usr/bin/env bash
# Forms of SS-PRL and SwAV on photographs, at equal epochs, in 40 minutes of one GPU with 16 cores:
#   bash tools/dev/gpu/compare_forms.sh PHOTOS [more options of compare]
# With DEPTH=50 before it, a ResNet-50 in place of the ResNet-18, from a copy of the package with
# configs for it. Either resumes where it was stopped.
set -euo pipefail
photos=$(realpath "$1")
cd "$(dirname "$0")/../../.."
depth=${DEPTH:-18}
results=$PWD/work_dirs/compare_forms_resnet$depth
if [ "$depth" != 18 ] && [ "$depth" != 50 ]; then
    echo "compare_forms.sh: DEPTH must be 18 or 50, but got $depth." >&2
    exit 2
fi
if [ "$depth" = 50 ]; then
    mkdir -p work_dirs/resnet50/tools/dev
    cp -r mmssprl configs work_dirs/resnet50
    cp -r tools/dev/gpu work_dirs/resnet50/tools/dev
    cd work_dirs/resnet50
    sed -i 's/depth=18/depth=50/; s/feature_channels = 512/feature_channels = 2048/' \
        configs/ssprl/ssprl_resnet18_photos-gpu.py
fi
exec python -m mmssprl compare --data "$photos" --size photos-gpu --equal epochs --epochs 30 \
    --seeds 5 --jobs 12 --reference swav-small --work-dir "$results" --methods \
    swav-small ssprl-small-sampled ssprl-small tools/dev/gpu/ssprl-small-larc.py "${@:2}"
