"""Logs of scalars as a run writes them."""

import json


def write_log(work_dir, records, stamp="20260101_000000"):
    path = work_dir / stamp / "vis_data" / "scalars.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
