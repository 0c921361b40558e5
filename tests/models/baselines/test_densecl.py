import pytest
import torch
from helpers.models.small_contrast import assert_step_equals, make_model, ungrouped, views_of
from reference import nce, unit

pytestmark = pytest.mark.fence

T = 0.2


def by_loops(model, views, queues):
    """Both terms of the first step without their weights, k and tbar, in float64 cell by cell."""
    model = ungrouped(model).double()
    with torch.no_grad():
        maps = [model.backbone(v)[-1].flatten(2) for v in views.double()]  # (B, C, S) each
    mlp, conv = model.neck.mlp, model.neck.mlp2
    first, second = conv[0], conv[2]
    totals, keys = [0.0, 0.0], []
    num_images, _, num_cells = maps[0].shape
    for b in range(num_images):
        query, key = ([m[b, :, i] for i in range(num_cells)] for m in maps)
        z = [unit(mlp(sum(cells) / num_cells)) for cells in (query, key)]
        totals[0] += nce(z[0], z[1], queues[0], T) / num_images
        convolved = [
            [
                second.weight[:, :, 0, 0] @ torch.relu(first.weight[:, :, 0, 0] @ cell + first.bias)
                + second.bias
                for cell in cells
            ]
            for cells in (query, key)
        ]
        for i in range(num_cells):
            likeness = [float(unit(query[i]) @ unit(cell)) for cell in key]
            j = likeness.index(max(likeness))
            term = nce(unit(convolved[0][i]), unit(convolved[1][j]), queues[1], T)
            totals[1] += term / num_images / num_cells
        # The mean before the norm enters the second queue.
        keys.append(torch.stack([z[1], unit(sum(convolved[1]) / num_cells)]))
    return [total.item() for total in totals], torch.stack(keys, dim=1).detach()


@pytest.mark.parametrize("loss_lambda", [0.0, 0.3])
def test_a_step_equals_the_loops_over_cells(loss_lambda):
    model = make_model("DenseCL", loss_lambda=loss_lambda)
    (views,) = views_of()
    queues = [q.keys.double().clone() for q in (model.queue, model.dense_queue)]
    (single, dense), keys = by_loops(model, views, queues)
    terms = {"loss_nce": (1 - loss_lambda) * single, "loss_dense": loss_lambda * dense}
    assert_step_equals(model, ([views],), terms, keys, tolerance=2e-6)


def test_the_dense_term_starts_with_its_epoch():
    model = make_model("DenseCL", loss_lambda=0.4, dense_start_epoch=2)
    with pytest.raises(RuntimeError, match="dense_start_epoch=2.*PretrainHook"):
        model.loss(views_of())
    model = make_model("DenseCL", loss_lambda=0.4, dense_start_epoch=2)
    weights = {name: term.weight for name, term in model.loss_terms().items()}
    assert weights == {"loss_nce": 0.6, "loss_dense": 0.4}
    model.on_epoch_length(2)
    shares, described = [], []
    for step in range(6):
        losses = model.loss(views_of(seed=step))
        shares.append((model.current_lambda, bool(losses["loss_dense"] > 0)))
        described.append({name: (t.weight, t.since) for name, t in model.loss_terms().items()})
    assert shares == [(0.0, False)] * 4 + [(0.4, True)] * 2
    both = {"loss_nce": (0.6, 4), "loss_dense": (0.4, 4)}
    assert described == [{"loss_nce": (1.0, 0)}] * 4 + [both] * 2
    assert model.dense_queue.fill == 1  # filled since the first step
