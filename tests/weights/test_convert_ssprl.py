import shutil

import pytest
import reference
import torch
import torchvision
from helpers.reporting.tiny_views import write_config
from helpers.saving.stopped_runs import assert_equal
from helpers.weights import published_checkpoints as published
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import load_checkpoint
from torch import nn
from torch.nn import functional as F

from mmssprl.config.shipped import shipped
from mmssprl.registry import MODELS
from mmssprl.weights import convert_weights
from mmssprl.weights.convert import RELEASED_CONFIG

pytestmark = pytest.mark.fence

PX_OF_SCALES = ((32, 24), (16,), (20,))
PATCHES = (1, 4, 9)
HEADS = ("projection_head", "l_pro_head0", "l_pro_head1")


def released_network(net, *, hid=16, dim=8, counts=(6, 5, 4)):
    """Add heads to a torchvision ResNet, under the names of the released network."""
    features = net.fc.in_features
    del net.fc
    for name in HEADS:
        head = [nn.Linear(features, hid), nn.BatchNorm1d(hid), nn.ReLU(), nn.Linear(hid, dim)]
        net.add_module(name, nn.Sequential(*head))
    image, *levels = counts
    net.ptypes = nn.Linear(dim, image, bias=False)
    for i, count in enumerate(levels):
        net.add_module(f"local_ptypes{i}", nn.Linear(dim, count, bias=False))
        net.add_module(f"l2g_ptypes{i}", nn.Linear(count, image, bias=False))
    return published.randomise(net)


@torch.no_grad()
def embed(net, scale, groups):
    """(V, M, B, D) of one scale from its tensors (N, B, 3, px, px)."""
    head = net.get_submodule(HEADS[scale])
    embeddings = []
    for crops in groups:
        # The released stem pads by 1 around the image and by 2 in conv1.
        padded = F.pad(crops.flatten(0, 1), (1, 1, 1, 1))
        maps = F.conv2d(padded, net.conv1.weight, stride=2, padding=2)
        maps = net.maxpool(net.relu(net.bn1(maps)))
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            maps = stage(maps)
        z = F.normalize(head(maps.mean(dim=(2, 3))), dim=-1)
        embeddings.append(z.reshape(-1, PATCHES[scale], crops.shape[1], z.shape[-1]))
    return torch.cat(embeddings)


@pytest.fixture(scope="module")
def released():
    torch.manual_seed(0)
    return released_network(published.Narrow())


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = write_config(tmp_path_factory.mktemp("config"), "")
    cfg = Config.fromfile(path)
    cfg.model.layout.small_px = 24
    cfg.model.backbone = {"type": "ResNet", "depth": 18, "base_channels": 8}
    cfg.model.neck.update(in_channels=64, hid_channels=16)
    cfg.model.head.update(variant="released", cross_weight=1.0, alpha=(0.5, 0.3), beta=(0.2, 0.7))
    cfg.model.head.update(num_prototypes=6, num_patch_prototypes=(5, 4))
    cfg.model.head.update(queue_length=12, patch_queue_length=(16, 36))
    cfg.dump(path)
    return path


def save(net, path):
    state = published.under("module.", net.state_dict())
    content = {"epoch": 200, "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}
    return published.save(content, path)


def build(config):
    torch.manual_seed(5)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        return MODELS.build(Config.fromfile(config).model.to_dict())


def rows(layer):
    return F.normalize(layer.weight.detach().double())


def expected_losses(net, inputs):
    """From the original tensors, by loops over the paper's sums in float64."""
    of_px = {crops.shape[-1]: crops for crops in inputs}
    z = []
    for scale, sizes in enumerate(PX_OF_SCALES):
        z.append(embed(net, scale, [of_px[px] for px in sizes]).double())
    prototypes = [rows(net.ptypes), rows(net.local_ptypes0), rows(net.local_ptypes1)]
    learners = [rows(net.l2g_ptypes0), rows(net.l2g_ptypes1)]
    numbers = {"tau": 0.1, "epsilon": 0.05, "num_iters": 3}
    ref = reference.Reference(prototypes, learners, **numbers, variant="released")
    alpha = (1, 0.5, 0.3)
    beta = (None, 0.2, 0.7)
    losses = {f"loss_pyramid_s{s}": alpha[s] * ref.pyramid_term(z[s], s, None) for s in range(3)}
    return losses | {f"loss_cross_s{s}": beta[s] * ref.cross_term(z, s, None) for s in (1, 2)}


@pytest.fixture(scope="module")
def converted(released, config, tmp_path_factory):
    """The report of a conversion, and its input."""
    folder = tmp_path_factory.mktemp("converted")
    file = save(released, folder / "w.pth")
    return convert_weights(file, folder / "ours" / "w.pth", config=config), file


def test_every_head_is_found(converted):
    report, _ = converted
    assert report.network.prefix == "state_dict.module."
    assert len(report.network.tensors) == 126
    assert report.kept == {"neck.heads": 27, "head.prototypes": 3, "head.correlation": 2}
    assert report.completed == {
        "data_preprocessor._extra_state": 1,
        "head._extra_state": 1,
        "head.queues": 6,
        "head.assignments": 1,
    }


def test_each_conversion_gives_the_same_file(converted, config, tmp_path):
    report, file = converted
    torch.manual_seed(9)
    before = torch.random.get_rng_state()
    again = convert_weights(file, tmp_path / "again.pth", config=config).weights
    assert torch.equal(torch.random.get_rng_state(), before)
    first, second = (torch.load(path)["state_dict"] for path in (report.weights, again))
    assert_equal(first, second, "weights")
    assert all(value.is_contiguous() for value in first.values())


def test_the_losses_are_as_by_the_original_tensors(released, converted, config):
    report, _ = converted
    model = build(config)
    load_checkpoint(model, str(report.weights), strict=True)
    assert model.head.num_iterations == 0
    assert [queue.num_filled for queue in model.head.queues] == [0, 0, 0]
    generator = torch.Generator().manual_seed(2)
    groups = [(group.num_crops, group.px) for group in model.layout.groups]
    assert groups == [(2, 32), (3, 24), (8, 16), (18, 20)]
    inputs = [torch.randn(n, 2, 3, px, px, generator=generator) for n, px in groups]
    model.eval()
    with torch.no_grad():
        losses = model.loss(inputs)
    expected = expected_losses(released, inputs)
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(losses[name], value.float(), rtol=1e-4, atol=1e-5)


LACKS = r"2 missing \(neck.heads.1.1.running_var, head.correlation.1.weight\)"
RESNET_50 = r"ssprl-released_resnet50_2xb64-coslr-200e_coco.py.*\d+ missing.*config"


@pytest.mark.parametrize(
    ("name", "match", "error"),
    [
        # The default is the released recipe: ResNet-50, 300 and 150 prototypes.
        (None, RESNET_50, ValueError),
        (RELEASED_CONFIG, RESNET_50, ValueError),
        ("tiny_views.py", rf"{LACKS}.*unexpected \(head.prototypes.3.weight\)", ValueError),
        ("other.py", "model.type='SSPRL'.*other.py.*configs/ssprl", ValueError),
        ("gone.py", "gone.py", FileNotFoundError),
    ],
)
def test_a_config_that_does_not_fit_the_weights_is_refused(
    name, match, error, released, config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # no checkout: the name is that of the shipped config
    shutil.copy(config, tmp_path)
    (tmp_path / "other.py").write_text("model = dict(type='MaskRCNN')")
    state = released.state_dict()
    if name == config.name:
        del state["l2g_ptypes1.weight"], state["l_pro_head0.1.running_var"]
        state["local_ptypes2.weight"] = torch.ones(4, 8)
    file = published.save({"state_dict": state}, tmp_path / "w.pth")
    with pytest.raises(error, match=match):
        convert_weights(file, "ours/w.pth", config=name)
    assert not (tmp_path / "ours/w.pth").exists()


def test_the_published_sizes_fit_the_default_config(tmp_path):
    """ResNet-50, heads 2048-2048-128, 300 image and 150 patch prototypes: strictly, all of it."""
    torch.manual_seed(0)
    net = torchvision.models.resnet50()
    net = released_network(net, hid=2048, dim=128, counts=(300, 150, 150))
    out = tmp_path / "ours" / "w.pth"
    report = convert_weights(save(net, tmp_path / "w.pth.tar"), out)
    assert report.backbone == {"type": "ResNet", "depth": 50}
    state = torch.load(out, weights_only=True, mmap=True)["state_dict"]
    build(shipped(RELEASED_CONFIG)).load_state_dict(state, strict=True)
