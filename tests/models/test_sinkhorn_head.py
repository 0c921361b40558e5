from dataclasses import replace

import pytest
import reference
import torch
from helpers.models.head_cases import LAYOUT, SAMPLED, embeddings_of, make_head
from torch.nn import functional as F

from mmssprl.engine import LARC

pytestmark = pytest.mark.fence

WITH_SMALL = replace(LAYOUT, num_small=2)
SIX_SMALL = replace(WITH_SMALL, num_small=6)
SWAV = replace(SIX_SMALL, levels=())


def reference_of(head):
    return reference.Reference(
        [c.weight.detach().double().requires_grad_() for c in head.prototypes],
        [g.weight.detach().double().requires_grad_() for g in head.correlation],
        tau=head.temperature,
        epsilon=head.epsilon,
        num_iters=head.num_iters,
        variant=head.variant,
    )


def reference_losses(ref, head, z, queues):
    losses = {
        f"loss_pyramid_s{s}": head.alpha[s] * ref.pyramid_term(z[s], s, queues[s])
        for s in range(len(z))
    }
    for s in range(1, len(z)):
        term = ref.cross_term(z, s, queues[0])
        losses[f"loss_cross_s{s}"] = head.cross_weight * head.beta[s] * term
    return losses


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize(
    "layout",
    [LAYOUT, WITH_SMALL, SAMPLED, SWAV],
    ids=["2views", "small_views", "sampled", "swav_with_small_views"],
)
def test_every_term_equals_the_equations(variant, layout):
    weights = {"alpha": (0.25, 0.5), "beta": (0.3, 0.7), "cross_weight": 2.0}
    if not layout.levels:
        weights = {"num_patch_prototypes": ()}
    head = make_head(layout, variant=variant, **weights)
    inputs = [z.requires_grad_() for z in embeddings_of(layout)]
    losses = head.loss(inputs)

    ref = reference_of(head)
    doubles = [z.detach().double().requires_grad_() for z in inputs]
    expected = reference_losses(ref, head, doubles, [None] * 3)
    assert losses.keys() == expected.keys()
    params = [*(c.weight for c in head.prototypes), *(g.weight for g in head.correlation)]
    for name, loss in losses.items():
        torch.testing.assert_close(loss.double(), expected[name], rtol=1e-5, atol=1e-6)
        options = {"retain_graph": True, "materialize_grads": True}
        grads = torch.autograd.grad(loss, inputs + params, **options)
        others = doubles + ref.prototypes + ref.correlation
        expected_grads = torch.autograd.grad(expected[name], others, **options)
        for got, want in zip(grads, expected_grads, strict=True):
            torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("variant", "layout", "lengths"),
    [
        # Rows per step: 2, 8, 18. Scale 0 is full after two steps, the others within a step.
        ("paper", LAYOUT, (4, 9, 40)),
        ("released", LAYOUT, (4, 9, 40)),
        ("paper", SAMPLED, (4, 5, 16)),  # rows per step: 2, 4, 6
        ("paper", SIX_SMALL, (4, 9, 40)),  # only rows of the image views
    ],
)
def test_full_queues_join_the_assignment(variant, layout, lengths):
    batch = 2
    settings = {"queue_length": lengths[0], "patch_queue_length": lengths[1:]}
    head = make_head(layout, variant=variant, **settings)
    pushed = [torch.empty(2, 0, 6, dtype=torch.float64) for _ in range(3)]
    for step in range(5):
        z = embeddings_of(layout, seed=step, batch=batch)
        losses = head.loss(z)
        queues = [
            rows[:, -length:] if rows.shape[1] >= length else None
            for rows, length in zip(pushed, lengths, strict=True)
        ]
        expected = reference_losses(reference_of(head), head, [x.double() for x in z], queues)
        for name in losses:
            torch.testing.assert_close(
                losses[name].detach().double(), expected[name].detach(), rtol=1e-5, atol=1e-6
            )
        for s in range(3):
            pushed[s] = torch.cat([pushed[s], z[s][:2].flatten(1, 2).double()], dim=1)

    rows_a_step = [batch * patches for patches in layout.patches_per_scale]
    assert [queue.num_pushed for queue in head.queues] == [5 * rows for rows in rows_a_step]
    without = make_head(layout, variant=variant)
    with torch.no_grad():
        for name, loss in without.loss(z).items():
            assert abs(loss - losses[name]) > 1e-5  # the queues changed every term


def test_queues_wait_for_their_epoch():
    head = make_head(queue_length=3, queue_start_epoch=2)
    head.set_epoch_length(2)
    plain = make_head()
    for step in range(6):
        z = embeddings_of(LAYOUT, seed=step)
        with_queue, without = (sum(h.loss(z).values()) for h in (head, plain))
        assert torch.equal(with_queue, without) == (step < 4)


def test_settings_in_epochs_need_the_length_of_one():
    with pytest.raises(RuntimeError, match="freeze_epochs=1.*PretrainHook"):
        make_head(freeze_epochs=1).loss(embeddings_of(LAYOUT))


@pytest.mark.parametrize(
    ("ablation", "kind"), [("with_cross", "pyramid"), ("with_pyramid", "cross")]
)
def test_an_ablation_drops_only_its_terms(ablation, kind):
    z = embeddings_of(LAYOUT)
    full = make_head().loss(z)
    kept = ["loss_pyramid_s0", f"loss_{kind}_s1", f"loss_{kind}_s2"]
    assert make_head(**{ablation: False}).loss(z) == {name: full[name] for name in kept}


def test_ablations_have_no_parts_without_use():
    assert not make_head(with_cross=False).correlation
    assert list(make_head(with_pyramid=False, patch_queue_length=50).queues) == [None] * 3


def test_a_layout_without_levels_has_one_term():
    swav = make_head(replace(LAYOUT, levels=()), num_patch_prototypes=())
    assert swav.loss(embeddings_of(LAYOUT)[:1]).keys() == {"loss_pyramid_s0"}


def test_shared_prototypes():
    head = make_head(share_prototypes=True)
    assert head.prototypes[0] is head.prototypes[1] is head.prototypes[2]
    assert sum(p.numel() for p in head.parameters()) == 5 * 6 + 2 * 5 * 5
    losses = head.loss(embeddings_of(LAYOUT))
    grads = [
        torch.autograd.grad(losses[f"loss_pyramid_s{s}"], head.prototypes[0].weight)[0]
        for s in range(3)
    ]
    assert all(grad.abs().max() > 0 for grad in grads)
    state = head.state_dict()
    assert torch.equal(state["prototypes.0.weight"], state["prototypes.2.weight"])


@pytest.mark.parametrize(
    "freeze", [{"freeze_iters": 2}, {"freeze_epochs": 1}], ids=["iters", "epochs"]
)
@pytest.mark.parametrize("optimizer_type", [LARC, torch.optim.AdamW])
def test_frozen_prototypes_stay_until_the_freeze_ends(freeze, optimizer_type):
    head = make_head(**freeze)
    head.set_epoch_length(2)
    optimizer = optimizer_type(head.parameters(), lr=0.1)
    start = {name: p.detach().clone() for name, p in head.named_parameters()}
    for step in range(3):
        optimizer.zero_grad()
        sum(head.loss(embeddings_of(LAYOUT, seed=step)).values()).backward()
        if step < 2:
            # Before the step: the loss has normalised away the last weight decay.
            for name, p in head.named_parameters():
                torch.testing.assert_close(p, start[name], rtol=0, atol=1e-6)
        optimizer.step()
    for name, p in head.named_parameters():
        assert (F.normalize(p) - start[name]).abs().max() > 1e-5


def started_head():
    queues = {"queue_length": 6, "patch_queue_length": (24, 54), "queue_start_epoch": 1}
    head = make_head(**queues, freeze_epochs=1)
    head.set_epoch_length(2)
    return head


@pytest.fixture
def filled():
    """A head with filled queues, and another one that has loaded its state."""
    head = started_head()
    for step in range(3):
        head.loss(embeddings_of(LAYOUT, seed=step))
    restored = started_head()
    restored.load_state_dict(head.state_dict())
    return head, restored


def test_a_state_dict_continues_bit_equal(filled):
    head, restored = filled
    assert not restored.is_frozen
    assert restored.uses_queues
    for step in range(3, 6):
        z = embeddings_of(LAYOUT, seed=step)
        assert restored.loss(z) == head.loss(z)


def test_a_queue_is_saved_as_its_rows_with_their_count(filled):
    for queue in filled[0].queues:
        assert queue.state_dict().keys() == {"features", "_extra_state"}


def test_evaluation_advances_nothing(filled):
    head, restored = filled
    restored.eval().loss(embeddings_of(LAYOUT))
    assert restored.num_iterations == 3
    for queue, own in zip(restored.queues, head.queues, strict=True):
        assert queue.num_pushed == own.num_pushed
        assert torch.equal(queue.features, own.features)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"variant": "swav"}, "variant.*'swav'"),
        ({"num_patch_prototypes": (4, 3, 2)}, "prototypes.*2 numbers"),
        ({"beta": -1.0}, "beta.*-1.0"),
        ({"temperature": 0.0}, "temperature.*0.0"),
        ({"num_iters": 0}, "num_iters.*0"),
        ({"freeze_epochs": 1, "freeze_iters": 5}, "freeze_epochs.*freeze_iters.*1.*5"),
        ({"with_pyramid": False, "with_cross": False}, r"levels=\[\]"),
    ],
)
def test_bad_settings(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_head(**kwargs)


@pytest.mark.parametrize("layout", [WITH_SMALL, SAMPLED])
def test_embeddings_of_another_layout(layout):
    with pytest.raises(ValueError, match="one layout"):
        make_head().loss(embeddings_of(layout))
