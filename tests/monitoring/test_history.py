import json
import subprocess
import sys

import numpy as np
import pytest

from mmssprl.monitoring import read_log, read_scalars


def record(step, loss=1.0):
    return {"lr": 0.1, "loss": loss, "step": step}


def write_log(work_dir, stamp, records):
    path = work_dir / stamp / "vis_data" / "scalars.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
    return path


def test_a_resumed_run_replaces_the_steps_it_repeats(tmp_path):
    write_log(tmp_path, "20260101_000000", [record(1), record(2), record(3)])
    write_log(tmp_path, "20260102_000000", [record(2, 0.5), record(3, 0.25), record(4)])
    records = read_scalars(tmp_path)
    assert [(item["step"], item["loss"]) for item in records] == [
        (1, 1),
        (2, 0.5),
        (3, 0.25),
        (4, 1),
    ]


def test_what_a_resumed_run_has_not_reached_again_does_not_count(tmp_path):
    write_log(tmp_path, "20260101_000000", [record(n) for n in range(1, 9)])
    write_log(tmp_path, "20260102_000000", [{"acc": 1.0, "step": 0}])
    write_log(tmp_path, "20260103_000000", [record(3, 0.5), record(4, 0.5)])
    found = [(item["step"], item["loss"]) for item in read_scalars(tmp_path)]
    assert found == [(1, 1), (2, 1), (3, 0.5), (4, 0.5)]


def test_a_log_alone(tmp_path):
    path = write_log(tmp_path, "20260101_000000", [record(1), record(2)])
    write_log(tmp_path, "20260102_000000", [record(3)])
    assert read_scalars(path) == [record(1), record(2)]


def test_validation_lines_and_a_cut_off_last_line_are_left_out(tmp_path):
    path = write_log(tmp_path, "20260101_000000", [record(7), {"acc": 1.0, "step": 7}])
    with path.open("a") as file:
        file.write('{"lr": 0.1, "lo')
    assert read_scalars(tmp_path) == [record(7)]


def test_damage_is_named(tmp_path):
    path = write_log(tmp_path, "20260101_000000", [record(1), record(2)])
    path.write_text(path.read_text().replace("}\n", "\n", 1))
    with pytest.raises(ValueError, match=r"line 1 of .*scalars.json is not"):
        read_scalars(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"must hold \*/vis_data/scalars.json"):
        read_scalars(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="its scalars.json, but there is no"):
        read_scalars(tmp_path / "gone")


@pytest.mark.parametrize("count", [1, 1999, 2000, 2001, 4001, 9999])
def test_of_a_long_log_every_kth_line_is_kept_and_the_last(tmp_path, count):
    write_log(tmp_path, "20260101_000000", [record(n) for n in range(1, count + 1)])
    seen = []
    log = read_log(tmp_path, lambda records: (seen.append(r["step"]) or r for r in records))
    steps = [item["step"] for item in log.records]
    assert log.num_lines == count
    assert seen == list(range(1, count + 1))
    if count <= 2000:
        assert steps == seen
    else:
        assert (steps[0], steps[-1]) == (1, count)
        assert 1000 < len(steps) <= 2001
        assert len(set(np.diff(steps)[:-1].tolist())) == 1


def test_an_empty_log(tmp_path):
    write_log(tmp_path, "20260101_000000", [])
    assert read_log(tmp_path) == ([], 0)


def test_memory_does_not_grow_with_the_log(tmp_path):
    extra = {f"relative_pyramid_s{i}": 0.5 + i for i in range(60)}
    lines = [
        {**record(n), **extra, "progress": n / 10_000, "epochs_done": n / 200}
        for n in range(1, 10_001)
    ]
    write_log(tmp_path, "20260101_000000", lines)
    code = (
        "import resource, sys; from mmssprl.monitoring import diagnose\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(diagnose(sys.argv[1]).length)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    length, kib = subprocess.check_output(command, text=True).splitlines()
    assert length == "10000 lines of the log: 50.0 epochs, 100% of the training"
    assert int(kib) < 25 * 1024  # the log has 18 MB, and took 102 MiB
