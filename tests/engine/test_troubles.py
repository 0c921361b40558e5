import json
from pathlib import Path

import pytest

from mmssprl.engine.troubles import AT_CHANCE, LEAST_STEPS, TROUBLES, diagnose, find_troubles

LOGS = {log["name"]: log for log in json.loads(Path(__file__).with_name("logs.json").read_text())}
"""Made by tools/dev/monitoring of version 0.2-wide, except that of SHORT_EPOCHS."""
SHORT_EPOCHS = "healthy_ssprl_scenes_256x16_batch16_seed0"
"""A run of configs/ssprl/ssprl_resnet18_scenes.py on 256 scenes of 96 px, in batches of 16 for 16
epochs, with lr 5e-4 and a line every 4 steps."""


def recorded(name):
    scalars = LOGS[name]["scalars"]
    lines = [zip(scalars, row, strict=True) for row in zip(*scalars.values(), strict=True)]
    return [{key: value for key, value in line if value is not None} for line in lines]


HEALTHY = recorded("healthy_ssprl_scenes_256x12_seed0")[-2]


def run(*changes, epochs=10, of_epochs=10, epoch_steps=100):
    """Return four lines per epoch, with all ``changes`` that have started by then."""
    records = []
    for line in range(1, 4 * epochs + 1):
        done = line / 4
        record = {**HEALTHY, "epochs_done": done, "progress": done / of_epochs}
        record["step"] = int(done * epoch_steps)
        for start, values in changes:
            if done >= start:
                record |= values
        records.append(record)
    return records


SIGNS = {
    "lr_zero": ({"lr": 0.0}, 1),
    "collapsed": ({"embedding_spread": 0.1, "effective_rank": 1.5}, 2),
    "identical": ({"alignment": 0.51}, 2),
    "epsilon": ({"code_perplexity_s1": 0.99}, 2),
    "prototypes": ({"prototypes_in_use_s1": 0.1}, 2),
    "at_chance": ({"relative_cross_s1": 1.0}, 3),
    "worse_than_start": ({"gain_over_start": -3.0, "gain_interval": 2.0}, 1),
    "loader": ({"data_time": 0.8}, 1),
}


@pytest.mark.parametrize("key", TROUBLES)
def test_a_trouble_is_named_once_its_sign_has_stayed(key):
    values, epochs = SIGNS[key]
    records = run((2, values))
    first = next(n for n in range(len(records)) if find_troubles(records[:n] or records[:1]))
    ((found, line),) = find_troubles(records[:first]).items()
    assert found == key
    assert records[first - 1]["epochs_done"] == 2 + epochs
    assert "\n" not in line
    assert f"{epochs} epoch{'s' * (epochs > 1)}" in line.partition(": ")[0]
    assert line.endswith("; see docs/troubleshooting.md")


def test_the_first_cause_explains_a_loss_at_chance():
    signs = {k: v for values, _ in SIGNS.values() for k, v in values.items()}
    others = ["worse_than_start", "loader"]
    assert [*find_troubles(run((0, signs)))] == ["lr_zero", *others]
    del signs["lr"]
    assert [*find_troubles(run((0, signs)))] == ["collapsed", *others]


def test_a_loss_may_stay_at_chance_for_a_tenth_of_the_training():
    at_chance = (0, {"relative_pyramid_s0": 1.0})
    assert not find_troubles(run(at_chance, of_epochs=200, epochs=19))
    records = run(at_chance, of_epochs=200, epochs=21)
    assert [*find_troubles(records)] == ["at_chance"]
    for record in records:  # 0.015 between the halves of three epochs is not learning
        record["relative_pyramid_s0"] = 1.3 - 0.01 * record["epochs_done"]
    assert [*find_troubles(records)] == ["at_chance"]


def test_what_is_no_trouble():
    untrained = {"relative_pyramid_s0": 1.0, "frozen": 1.0}
    within_the_interval = {"gain_over_start": -2.0, "gain_interval": 2.5}
    for values in (untrained, within_the_interval):
        assert not find_troubles(run((0, values)))


def test_there_are_healthy_logs_and_some_of_every_trouble():
    labels = {log["label"] for log in LOGS.values()}
    assert labels == {"healthy", *TROUBLES} - {"worse_than_start"}  # needs a probe
    # One term is above chance for four epochs of 16 steps, but falls all the time.
    last = max(r["step"] for r in recorded(SHORT_EPOCHS) if r["relative_cross_s1"] >= AT_CHANCE)
    assert last > LEAST_STEPS


@pytest.mark.parametrize("name", LOGS)
def test_the_verdict_on_a_recorded_run(name):
    records, label = recorded(name), LOGS[name]["label"]
    found = diagnose("log", records)
    assert found.verdict == label
    is_healthy = label == "healthy"
    assert found.lines[1].startswith("healthy: " if is_healthy else "trouble: ")
    assert not (is_healthy and any(find_troubles(records[:n]) for n in range(1, len(records))))


def test_too_short_to_tell():
    records = recorded(next(name for name, log in LOGS.items() if log["label"] == "at_chance"))
    assert diagnose("log", records[:2]).verdict == "too_short"
    short = [record for record in records if record["step"] < LEAST_STEPS]
    assert short[-1]["epochs_done"] > 3
    assert diagnose("log", short).verdict == "too_short"


def test_a_complete_run_is_whole_though_its_log_ends_before_its_last_step(tmp_path):
    """Lines come every few steps: the last one is of step 96 of 100, in epoch 9.6 of 10."""
    records = run(epochs=9)
    records.append({**records[-1], "epochs_done": 9.6, "progress": 0.96, "step": 960})
    assert diagnose(tmp_path, records).lines[0].endswith("9.6 epochs, 96% of the training")
    (tmp_path / "ssprl_resnet18_backbone.pth").touch()
    assert diagnose(tmp_path, records).lines[0].endswith("10.0 epochs, 100% of the training")


@pytest.mark.parametrize(
    ("file", "last", "shown"),
    [
        ("ssprl_resnet18_best_backbone.pth", 0.96, "9.6 epochs, 96%"),  # of a probe, in between
        ("ssprl_resnet18_backbone.pth", 0.5, "5.0 epochs, 50%"),  # of a run that is now longer
    ],
)
def test_other_exports_do_not_make_a_run_complete(file, last, shown, tmp_path):
    records = [{**each, "progress": each["progress"] * last / 0.9} for each in run(epochs=9)]
    records[-1] |= {"epochs_done": 10 * last, "progress": last}
    (tmp_path / file).touch()
    assert diagnose(tmp_path, records).lines[0].endswith(f"{shown} of the training")
