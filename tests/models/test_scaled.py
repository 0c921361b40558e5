"""The numbers of each method that follow from the size of a training."""

import pytest
from mmengine.config import Config

from mmssprl.models import (
    BYOL,
    SSPRL,
    DenseCL,
    DetCo,
    InsLoc,
    MaskCo,
    MoCo,
    PretrainingModel,
    PyramidDistillation,
    TrainingSize,
)
from mmssprl.pretraining.methods import Method

VIEWS = {"image_px": 96, "small_px": 48, "levels": []}
SIZE = {"num_images": 1200, "epochs": 24, "batch_size": 64, "layout": VIEWS, "channels": 40}
HEAD = {"num_prototypes": 300, "num_patch_prototypes": 150, "queue_start_epoch": 80}
HEAD |= {"queue_length": 960, "patch_queue_length": 2496}
GRIDS = [{"grid": 2, "resize_px": 90, "patch_px": 32, "area": (0.6, 1.0)}]


def size(**changes):
    return TrainingSize(**{**SIZE, **changes})


def contrast(**model):
    """A config of MoCo for batches of 64 in groups of 16."""
    own = {"queue_length": 512, "momentum": 0.97, "bn_groups": 4, "layout": dict(VIEWS)}
    own["neck"] = {"in_channels": 20, "hid_channels": 80}
    return Config({"model": {**own, **model}, "train_dataloader": {"batch_size": 64}})


def pyramids(epsilon=0.05):
    jitter = dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 8 * epsilon)
    model = {"head": {**HEAD, "epsilon": epsilon}, "data_preprocessor": jitter}
    training = {"train_cfg": {"max_epochs": 200}, "auto_scale_lr": {"base_batch_size": 128}}
    return Config({"model": model, "num_gpus": 2, **training})


def test_a_method_without_such_numbers_has_none():
    assert PretrainingModel.scaled(Config(), size()) == {}
    assert PretrainingModel.size_warnings(Config(), size()) == []


def test_the_numbers_of_moco_by_hand():
    assert MoCo.scaled(contrast(), size()) == {
        "model.momentum": 0.9669,  # over 7 % of 24 x 18 updates: 1 - 1 / 30.24
        "model.queue_length": 512,
        "model.neck.hid_channels": 160,  # 4 x the features, as in the config
        "model.bn_groups": 4,
    }


@pytest.mark.parametrize(("is_short", "momentum"), [(True, 0.999), (False, 0.97)])
def test_a_long_run_keeps_at_most_the_momentum_of_its_config(is_short, momentum):
    values = MoCo.scaled(contrast(), size(epochs=10_000, is_short=is_short))
    assert values["model.momentum"] == momentum


@pytest.mark.parametrize(
    ("num_images", "length", "warns"), [(1000, 500, False), (131, 65, False), (129, 65, True)]
)
def test_a_queue_has_half_of_the_images_or_one_key_more_than_a_step(num_images, length, warns):
    small = size(num_images=num_images)
    assert MoCo.scaled(contrast(), small)["model.queue_length"] == length
    warnings = MoCo.size_warnings(contrast(queue_length=length), small)
    assert len(warnings) == warns
    for text in warnings:
        assert f"the queue of {length} keys is longer than half of the {num_images} images" in text


@pytest.mark.parametrize(
    ("batch_size", "num_devices", "groups"), [(64, 1, 4), (6, 1, 2), (7, 1, 1), (8, 2, 1)]
)
def test_the_number_of_groups_follows_the_batch(batch_size, num_devices, groups):
    few = size(batch_size=batch_size, num_devices=num_devices)
    assert MoCo.scaled(contrast(), few)["model.bn_groups"] == groups


def test_byol_scales_its_momentum_up_to_the_published_one():
    cfg = Config({"model": {"base_momentum": 0.99}})
    assert BYOL.scaled(cfg, size()) == {"model.base_momentum": 0.9669}
    longest = {"epochs": 10_000}
    assert BYOL.scaled(cfg, size(**longest)) == {"model.base_momentum": 0.996}
    assert BYOL.scaled(cfg, size(**longest, is_short=False)) == {"model.base_momentum": 0.99}


@pytest.mark.parametrize(("epochs", "start"), [(1, 0), (2, 1), (24, 1)])
def test_the_dense_term_starts_before_the_last_epoch(epochs, start):
    values = DenseCL.scaled(contrast(dense_start_epoch=1), size(epochs=epochs))
    assert values["model.dense_start_epoch"] == start
    assert values.keys() > MoCo.scaled(contrast(), size()).keys()


def test_squares_of_a_jigsaw_keep_their_share_of_a_cell():
    cfg = contrast(grid=3, patch_px=64, layout={**VIEWS, "small_px": 255})  # of cells of 85 px
    assert DetCo.scaled(cfg, size())["model.patch_px"] == 12  # of 16 px


def test_the_layers_of_insloc_keep_their_width():
    kept = MoCo.scaled(contrast(), size()).keys() - InsLoc.scaled(contrast(), size()).keys()
    assert kept == {"model.neck.hid_channels"}


def test_regions_keep_their_share_of_a_view():
    cfg = contrast(layout={**VIEWS, "image_px": 192})
    cfg.train_dataloader.dataset = {"pipeline": [{"type": "RegionPairCrop", "box_px": (64, 130)}]}
    values = MaskCo.scaled(cfg, size())
    assert values["train_dataloader.dataset.pipeline.0.box_px"] == (32, 65)


def test_a_short_run_has_a_prototype_per_30_images():
    values = SSPRL.scaled(pyramids(), size())
    assert values == {"model.head.num_prototypes": 40, "model.head.num_patch_prototypes": 40}


def test_a_long_run_scales_the_published_head_by_its_images():
    # Half of the images on one device, with two views and a level of 4 patches each.
    size_of_half = {"num_images": 41_400, "epochs": 100, "is_short": False, "data_share": 0.5}
    values = SSPRL.scaled(pyramids(), size(**size_of_half, layout={**VIEWS, "levels": GRIDS}))
    assert {key.removeprefix("model.head."): value for key, value in values.items()} == {
        "num_prototypes": 150,
        "num_patch_prototypes": 80,  # of 75
        "queue_length": 960,  # 2 x 960 x 150 / 300
        "patch_queue_length": [2662],  # 2 x 2,496 x 80 / 150
        "queue_start_epoch": 1,  # a step has fewer images than the published one
        "freeze_epochs": 0,
        "freeze_iters": 646,  # an epoch; 1 % of the steps are as many
    }


def test_a_network_that_adamw_trains_takes_numbers_of_the_short_form():
    layout = {**VIEWS, "levels": GRIDS}
    values = SSPRL.scaled(
        pyramids(), size(is_short=False, short_form=pyramids(0.02), layout=layout)
    )
    assert values["model.head.epsilon"] == 0.02
    assert values["model.data_preprocessor.hue"] == 0.16


@pytest.mark.parametrize(("gives_map", "values"), [(True, {}), (False, {"model.dense_weight": 0})])
def test_a_backbone_without_a_map_has_no_cells_to_distil(gives_map, values):
    assert PyramidDistillation.scaled(Config(), size(gives_map=gives_map)) == values


def test_a_config_of_the_user_s_keeps_its_numbers():
    assert Method("own", "own", "own.py").scaled(contrast(), size()) == {}
