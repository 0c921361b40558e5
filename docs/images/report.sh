#!/bin/sh
# Draw report.png: the head of a run's report at 600 px, so that a phone shows it at two thirds.
#     sh docs/images/report.sh work_dirs/photos/report.html
exec chromium --headless --no-sandbox --hide-scrollbars --force-device-scale-factor=2 \
    --window-size=600,502 --screenshot="$(dirname "$0")/report.png" "file://$(realpath "$1")"
