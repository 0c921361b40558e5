import math

import pytest
import torch
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch

from mmssprl.functional import measure_views
from mmssprl.models import LossTerm
from mmssprl.registry import MODELS

VIEWS = {"effective_rank", "alignment", "alignment_others"}


@pytest.fixture
def ssprl():
    torch.manual_seed(0)
    model = MODELS.build(model_cfg(BACKBONE, 8)).train()
    inputs = model.data_preprocessor(packed_batch(LAYOUT, batch=4), training=True)["inputs"]
    return model, inputs


def test_ss_prl_measures_the_image_views_and_each_scale(ssprl):
    model, inputs = ssprl
    assert model.examine() == {}
    with torch.no_grad():
        model.eval()
        z = model.neck(model.extract_feat(inputs))[0][:2].flatten(1, 2)  # (2, B, D)
        model.loss(inputs)
    found = model.examine()
    expected = measure_views(*z)
    assert expected.keys() == VIEWS
    for name, value in expected.items():
        assert found[name].item() == pytest.approx(value.item(), rel=1e-5)
    assert set(found) == VIEWS  # no assignments outside of training
    model.train()
    model.loss(inputs)
    of_scales = {f"prototypes_in_use_s{s}" for s in (0, 1)}
    of_scales |= {f"{kind}_perplexity_s{s}" for kind in ("code", "prediction") for s in (0, 1)}
    found = model.examine()
    assert found.keys() == VIEWS | of_scales
    assert all(0 < found[name].item() <= 1 for name in of_scales)


def test_prototypes_in_use_are_those_of_an_epoch(ssprl):
    head = ssprl[0].head
    head.set_epoch_length(2)
    shares = []
    for step, nearest in enumerate((0, 1, 1, 2)):
        # Prototype 5 is near only to small views, which get no codes.
        scores = torch.eye(6)[[nearest, nearest, 5], None, None].expand(3, 1, 4, 6)  # (V, M_0, B)
        head.assignments.note([scores], [torch.full((2, 4, 6), 1 / 6)], step)
        shares.append(head.examine()["prototypes_in_use_s0"].item() * 6)
    assert shares == pytest.approx([1, 2, 1, 2])
    assert head.assignments.examine(temperature=0.1)["prototypes_in_use_s0"].item() == 0.5


def test_relative_losses():
    term = LossTerm("L", 0, weight=0.25, num_classes=10)
    assert term.chance == math.log(10)
    assert term.relative(0.25 * math.log(10) / 2) == pytest.approx(0.5)
    # Predictions orthogonal to their targets: twice (2 - 2 * 0).
    assert LossTerm("L", 0, weight=1.0, unrelated=4.0).relative(1.0) == 0.25
    assert LossTerm("L", 0, weight=1.0).relative(1.0) is None
