import pytest
import torch
from helpers.models.byol_cases import LAYOUT, MODEL, build_byol, sgd_step, views_of
from helpers.models.small_ssprl import BACKBONE
from mmengine.logging import MessageHub

from mmssprl.registry import MODELS

LEVEL = {"grid": 2, "resize_px": 32, "patch_px": 16}


def test_target_follows_each_step_with_its_own_momentum():
    model = build_byol(training_length=4, base_momentum=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    weight, average = model.neck.fc0.weight, model.target.copies[1].fc0.weight
    with torch.no_grad():
        weight.mul_(2)  # initialised after it was built
    expected = weight.detach().clone()
    # m_t = 1 - (cos(pi t / 4) + 1) / 4
    for t, momentum in enumerate((0.5, 0.5732233, 0.75, 0.9267767)):
        sgd_step(model, views_of(t), optimizer)
        # The target that this step has used: the first equals the online network.
        torch.testing.assert_close(average, expected)
        assert model.momentum == pytest.approx(momentum, rel=1e-6)
        expected = momentum * expected + (1 - momentum) * weight.detach()
    assert (average - weight).abs().max() > 1e-3
    model.eval()([views_of(0)], mode="loss")
    assert model.target.num_updates == 4


def test_equals_mmpretrains_loss_plus_four_over_steps():
    # Its momentum is one step ahead in the schedule, which is flat in so long a training.
    ours = build_byol(training_length=10**9, base_momentum=0.9).double()
    MessageHub.get_current_instance().update_info("max_iters", 10**9)
    mlp = {
        "type": "NonLinearNeck",
        "hid_channels": 12,
        "out_channels": 4,
        "with_bias": True,
        "with_last_bn": False,
        "norm_cfg": {"type": "BN1d"},
    }
    theirs = MODELS.build(
        {
            "type": "mmpretrain.BYOL",
            "backbone": BACKBONE,
            "neck": {**mlp, "in_channels": 8},
            "head": {
                "type": "LatentPredictHead",
                "predictor": {**mlp, "in_channels": 4, "with_avg_pool": False},
                "loss": {"type": "CosineSimilarityLoss"},
            },
            "base_momentum": 0.1,
        }
    ).double()
    for name in ("backbone", "neck"):
        getattr(theirs, name).load_state_dict(getattr(ours, name).state_dict())
    theirs.head.predictor.load_state_dict(ours.predictor.state_dict())
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (ours, theirs)]
    for t in range(3):
        views = views_of(t).double()
        loss = sgd_step(ours, views, optimizers[0])
        expected = theirs(list(views), mode="loss")["loss"]
        optimizers[1].zero_grad()
        expected.backward()
        optimizers[1].step()
        assert loss == pytest.approx(float(expected.detach()) + 4, rel=1e-12)
    target = theirs.target_net.module
    for part, other in zip(ours.target.copies, target, strict=True):
        for p, q in zip(part.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-12)
    weights = dict(theirs.backbone.named_parameters())
    for name, p in ours.backbone.named_parameters():
        torch.testing.assert_close(p, weights[name], rtol=0, atol=1e-12)


def test_settings_out_of_range():
    with pytest.raises(ValueError, match=r"base_momentum.*1\.0"):
        build_byol(base_momentum=1.0)
    for change in ({"levels": [LEVEL]}, {"num_small": 2}):
        with pytest.raises(ValueError, match="BYOL.*num_small=0"):
            build_byol(layout={**LAYOUT, **change})
    with pytest.raises(RuntimeError, match="PretrainHook"):  # it needs the training's length
        MODELS.build(MODEL)([views_of(0)], mode="loss")


def test_a_target_of_a_finished_training_is_refused_and_not_kept_for_ever():
    model = build_byol()
    model.on_training_length(2)
    for step in range(2):
        model([views_of(step)], mode="loss")
    with pytest.raises(RuntimeError, match="2 updates.*after 2.*epochs.*weights"):
        model([views_of(2)], mode="loss")


def test_batch_norm_needs_two_images_in_each_step():
    model = build_byol()
    model.check_training(num_images=6, batch_size=4, last_batch_size=2)
    with pytest.raises(ValueError, match="value per channel"):  # what it is to prevent
        model([views_of(0)[:, :1]], mode="loss")
    for batch_size, last in ((4, 1), (1, None)):
        with pytest.raises(ValueError, match="1.*batch_size.*drop_last"):
            model.check_training(num_images=5, batch_size=batch_size, last_batch_size=last)
