import pytest
import torch
from helpers.models.small_contrast import make_model, model_cfg, views_of
from reference import unit_rows

from mmssprl.models.momentum_encoder import MomentumEncoder, target_momentum
from mmssprl.registry import MODELS

pytestmark = pytest.mark.fence


def test_target_follows_each_step_with_its_own_momentum():
    model = make_model("BYOL", training_length=4, base_momentum=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    weight = model.neck.fc0.weight
    average = model.target.copies[1].fc0.weight
    with torch.no_grad():
        weight.mul_(2)  # weights are initialised after the model is built
    expected = weight.detach().clone()
    # m_t = 1 - (cos(pi t / 4) + 1) / 4
    for t, momentum in enumerate((0.5, 0.5732233, 0.75, 0.9267767)):
        optimizer.zero_grad()
        model(views_of(seed=t), mode="loss")["loss_prediction"].backward()
        optimizer.step()
        # The target that this step used. In the first step it equals the online network.
        torch.testing.assert_close(average, expected)
        assert model.momentum == pytest.approx(momentum, rel=1e-6)
        expected = momentum * expected + (1 - momentum) * weight.detach()
    assert (average - weight).abs().max() > 1e-3


def test_the_momentum_stays_1_after_the_training():
    assert target_momentum(0.5, 1.5) == 1


def test_evaluation_updates_no_target():
    model = make_model("BYOL", training_length=4)
    model(views_of(), mode="loss")
    model.eval()(views_of(), mode="loss")
    assert model.target.num_updates == 1


def test_a_step_equals_the_equations():
    model = make_model("BYOL").double()
    views = views_of()[0].double()
    model.target.update(0.0)  # copies the weights, which are changed below
    with torch.no_grad():
        for parameter in model.target.parameters():
            parameter.mul_(1.1).add_(0.01)
    loss = model([views], mode="loss")["loss_prediction"]

    def embedded(backbone, neck):
        """z (B, D) of each view, with its own batch statistics."""
        return [neck((backbone(view)[-1].mean(dim=(2, 3)),))[0] for view in views]

    embeddings = embedded(model.backbone, model.neck)
    predictions = [model.predictor((z,))[0] for z in embeddings]
    targets = embedded(*model.target.copies)
    # Each view predicts the target's projection of the other view.
    expected = sum(
        (unit_rows(p) - unit_rows(t)).square().sum(dim=1).mean()
        for p, t in zip(predictions, targets[::-1], strict=True)
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(x, trained) for x in (loss, expected)))


def test_the_length_of_the_training_must_be_known():
    with pytest.raises(RuntimeError, match="PretrainHook"):
        MODELS.build(model_cfg("BYOL"))(views_of(), mode="loss")


def test_a_step_after_the_end_of_the_training_is_refused():
    model = make_model("BYOL", training_length=2)
    for step in range(2):
        model(views_of(seed=step), mode="loss")
    with pytest.raises(RuntimeError, match="2 updates.*after 2.*epochs.*weights"):
        model(views_of(seed=2), mode="loss")


def test_statistics_of_the_copies_are_their_own():
    norm = torch.nn.BatchNorm2d(3)
    images = torch.randn(8, 3, 2, 2)
    encoder = MomentumEncoder(norm)
    norm(images)
    encoder.update(0.5)
    (theirs,) = encoder.copies
    before = theirs.running_mean.clone()
    assert torch.equal(norm.running_mean, before)
    norm(images + 5)
    encoder.update(0.5)
    assert torch.equal(theirs.running_mean, before)
    theirs(images)
    assert not torch.equal(theirs.running_mean, before)
