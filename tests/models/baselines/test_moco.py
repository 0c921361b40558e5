import pytest
import torch
from helpers.models.small_contrast import assert_step_equals, make_model, ungrouped, views_of
from reference import mean_nce
from torch.nn import functional as F

from mmssprl.models import GroupedBatchNorm

pytestmark = pytest.mark.fence

T = 0.2


def embedded(backbone, neck, views):
    """norm(h(pool f(x))) of (B, 3, px, px)."""
    return F.normalize(neck((backbone(views)[-1].mean(dim=(2, 3)),))[0], dim=1)


@pytest.mark.parametrize("bn_groups", [1, 2])
def test_a_step_equals_the_equations(bn_groups, monkeypatch):
    model = make_model(bn_groups=bn_groups)
    (views,) = views_of()
    start = ungrouped(model)  # in the first step the key network is a copy
    negatives = model.queue.keys.clone()
    order = torch.tensor([3, 0, 2, 1])
    drawn = []
    draw = "mmssprl.models.baselines.moco.draw_order"
    monkeypatch.setattr(draw, lambda *args: drawn.append(args[:3]) or order)
    # Each group separately: slices for the queries, permuted images for the keys.
    groups = torch.arange(4).chunk(bn_groups)
    key = torch.empty(4, 4)
    with torch.no_grad():
        query = torch.cat([embedded(start.backbone, start.neck, views[0, g]) for g in groups])
        for g in order.chunk(bn_groups):
            key[g] = embedded(start.backbone, start.neck, views[1, g])
    expected = mean_nce(query.double(), key.double(), negatives.double(), T)
    assert_step_equals(model, ([views],), {"loss_nce": expected}, [key], tolerance=2e-6)
    model.loss([views])
    assert drawn == [(1, 4, bn_groups), (2, 4, bn_groups)]  # a permutation per step


@pytest.mark.parametrize(("bn_groups", "num_ranks"), [(1, 1), (2, 1), (1, 2)])
def test_one_group_in_all_is_warned_of(bn_groups, num_ranks, monkeypatch):
    logged = []
    grouping = "mmssprl.models.grouped_batch_norm"
    monkeypatch.setattr(f"{grouping}.print_log", lambda text, **_: logged.append(text))
    monkeypatch.setattr(f"{grouping}.dist.get_world_size", lambda: num_ranks)
    model = make_model(queue_length=20, bn_groups=bn_groups)
    model.check_training(num_images=20, batch_size=4)
    assert ["batch_size=4" in text for text in logged] == [True] * (bn_groups == num_ranks == 1)


def test_groups_that_sync_bn_joined_are_refused():
    model = make_model(bn_groups=2)
    norms = sum(isinstance(m, GroupedBatchNorm) for m in model.modules())
    assert norms == 2 * 5
    joined = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    with pytest.raises(ValueError, match="sync_bn=None"):
        joined.check_training(num_images=100, batch_size=4)
