import math

import pytest
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.console.tables import reasons_table
from mmssprl.finetuning.config import choose_recipe
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.finetuning.start import finetune
from mmssprl.finetuning.tasks import TASKS


def recipe(
    task="classify", weights="file.pth", num_images=100, num_devices=1, on_gpu=False, **options
):
    devices = {"num_devices": num_devices, "on_gpu": on_gpu}
    base = Config.fromfile(shipped(TASKS[task].base_config(on_gpu=on_gpu)))
    return choose_recipe(weights, FinetuneOptions(**options), base, num_images, **devices)


def test_few_images_on_a_cpu():
    chosen = recipe(num_images=100)
    assert (chosen.image_px, chosen.batch_size, chosen.epochs) == (128, 8, 100)
    assert chosen.steps_per_epoch == 12
    assert chosen.val_interval == 20
    assert chosen.lr == 3e-4
    assert chosen.warmup_iters == 60
    text = " ".join(reasons_table(chosen.rows).split())
    assert "8 images x 1 device " in text
    assert "AdamW, lr 0.0003, cosine after 60 steps of warm-up " in text
    assert max(len(row.reason.split()) for row in chosen.rows.values()) <= 12


def test_many_images_on_gpus():
    chosen = recipe("detect", num_images=100_000, num_devices=4, on_gpu=True)
    assert (chosen.image_px, chosen.batch_size, chosen.epochs) == (800, 4, 12)
    assert chosen.steps_per_epoch == 6250
    assert chosen.warmup_iters == 500


def test_the_rate_follows_the_weights():
    assert recipe(weights="random").lr == 1e-3
    assert recipe(weights="supervised").lr == 3e-4
    assert recipe(freeze=True).lr == 3e-3
    assert recipe(freeze=True, lr=0.5).lr == 0.5


def test_a_short_training_has_no_warm_up_of_one_step():
    # mmengine's LinearLR ends below the full rate after one step.
    assert recipe(epochs=2).warmup_iters == 0
    assert recipe(epochs=4).warmup_iters == 2


def test_what_is_asked_for_is_taken():
    chosen = recipe("segment", epochs=3, batch_size=5, image_px=64)
    assert (chosen.epochs, chosen.batch_size, chosen.image_px) == (3, 5, 64)
    assert chosen.val_interval == 1
    assert [row.reason for row in chosen.rows.values()].count("as asked") == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epochs": 0}, "epochs must be at least 1, but got 0"),
        ({"epochs": math.nan}, "epochs must be at least 1, but got nan"),
        ({"image_px": 16}, "image_px must be at least 32, but got 16"),
        ({"image_px": 100_000}, "image_px .* 2048, but got 100000"),
        ({"batch_size": 1}, "batch_size must be at least 2, but got 1"),
        ({"lr": 0.0}, "lr must be a number above 0, but got 0.0"),
        ({"lr": math.nan}, "lr must be a number above 0, but got nan"),
        ({"lr": math.inf}, "lr must be a number above 0, but got inf"),
        ({"freeze": True}, "freeze .* random"),
        ({"val_share": math.nan}, "val_share .* nan"),
    ],
)
def test_numbers_out_of_range_are_refused_before_any_image_is_read(
    options, match, tmp_path, monkeypatch
):
    monkeypatch.setattr("mmssprl.datasets.labels.find.Files", None)  # reads the folder
    with pytest.raises(ValueError, match=match):
        finetune("random", "data", "classify", tmp_path / "run", **options)
