from helpers.engine.logs import write_log

from mmssprl.engine.history import read_scalars


def record(step, loss=1.0):
    return {"lr": 0.1, "loss": loss, "step": step}


def test_a_resumed_run_replaces_the_steps_from_its_first_on(tmp_path):
    write_log(tmp_path, [record(n) for n in range(1, 9)])
    write_log(tmp_path, [{"acc": 1.0, "step": 0}], "20260102_000000")
    write_log(tmp_path, [record(3, 0.5), record(4, 0.5)], "20260103_000000")
    found = [(item["step"], item["loss"]) for item in read_scalars(tmp_path)]
    assert found == [(1, 1), (2, 1), (3, 0.5), (4, 0.5)]


def test_validation_lines_and_a_cut_off_last_line_are_left_out(tmp_path):
    path = write_log(tmp_path, [record(1), record(2), {"acc": 1.0, "step": 2}])
    with path.open("a") as file:
        file.write('{"lr": 0.1, "lo')
    assert read_scalars(tmp_path) == [record(1), record(2)]
