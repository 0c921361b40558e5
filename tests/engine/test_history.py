from helpers.engine.logs import write_log

from mmssprl.engine.history import read_scalars


def test_a_resumed_run_replaces_the_steps_from_its_first_on_and_other_lines_are_left_out(tmp_path):
    write_log(tmp_path, [{"lr": 0.1, "loss": 1.0, "step": step} for step in range(1, 9)])
    validation = {"acc": 1.0, "step": 0}
    write_log(tmp_path, [validation], "20260102_000000")
    resumed = [{"lr": 0.1, "loss": 0.5, "step": step} for step in (3, 4)]
    path = write_log(tmp_path, [*resumed, validation], "20260103_000000")
    with path.open("a") as file:
        file.write('{"lr": 0.1, "lo')  # is still being written
    found = [(item["step"], item["loss"]) for item in read_scalars(tmp_path)]
    assert found == [(1, 1), (2, 1), (3, 0.5), (4, 0.5)]
