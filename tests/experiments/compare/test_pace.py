import json
from pathlib import Path

import pytest

from mmssprl.experiments.compare.images import TrainingImages
from mmssprl.experiments.compare.pace import MethodPace, epochs_for_equal, read_paces
from mmssprl.experiments.compare.setting import CompareSetting, code_digest, recipe_digest
from mmssprl.pretraining.methods import BY_KEY


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(0.75, 7), (0.7, 7), (0.6, 8), (9.0, 1)],  # of 6.67, 7.14, 8.33 and 0.56
)
def test_equal_time_is_the_nearest_number_of_epochs(seconds, epochs):
    measured = MethodPace(seconds, 0.5, 3 * 10**9, 10**9, "a machine")
    assert epochs_for_equal("time", 10, measured, BY_KEY["swav"]) == epochs
    assert epochs_for_equal("flops", 10, measured, BY_KEY["swav"]) == 3  # of 3.33


def test_a_method_is_paced_by_the_steps_that_were_timed_in_its_own_turns(tmp_path):
    setting = CompareSetting("scenes", Path("data"), 6, 64)
    # The machine had become slower by half when a method was added. The first are of other code.
    measured = {2: {"ssprl": 0.4, "swav": 0.1}, 10: {"ssprl": 0.8, "swav-small": 0.4}}
    measured = {1: {"ssprl": 0.1, "swav": 0.1}, **measured, 4: {"ssprl": 0.9, "byol": 0.1}}
    images = TrainingImages(tmp_path, 24, "digest", {}, 2)
    for number, seconds in measured.items():
        recipes = {key: recipe_digest(setting, BY_KEY[key]) for key in seconds}
        flops = dict.fromkeys(seconds, number)
        code = "other" if number == 1 else code_digest()
        values = {"seconds": seconds, "flops": flops, "machine": "a machine"}
        file = tmp_path / "paces" / f"{number}" / "result.json"
        file.parent.mkdir(parents=True)
        # Of the fourth the images were others.
        about = {"images": "other" if number == 4 else images.digest, "batch_size": 64}
        settings = {"recipes": recipes, "code": code, **about}
        file.write_text(json.dumps({"settings": settings, "values": values, "seconds": 1.0}))
    found = read_paces(tmp_path, setting, BY_KEY, images)
    assert {key: (p.seconds, p.reference_seconds, p.flops) for key, p in found.items()} == {
        "ssprl": (0.4, 0.4, 2),
        "swav": (0.1, 0.4, 2),
        "swav-small": (0.4, 0.8, 10),
    }
