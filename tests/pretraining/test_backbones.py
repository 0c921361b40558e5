import pytest
import torch
from helpers.pretraining.recipes import CPU, choose, config_of
from mmengine.optim import OptimWrapper
from torch.optim import SGD

from mmssprl.errors import UserValueError
from mmssprl.functional.pooling import pool
from mmssprl.pretraining.backbones import find_backbone
from mmssprl.pretraining.known_backbones import BACKBONES
from mmssprl.registry import MODELS
from mmssprl.weights import export_weights, write_description

PX = 32
TIMM = ["timm/test_resnet", "timm/test_vit"]
LARGE_IN_TIMM = [
    f"timm/{name}"
    for name in ("convnext_atto", "mobilenetv3_small_100", "swin_tiny_patch4_window7_224")
]
NETS = "helpers.models.own_nets"
OWN = [f"{NETS}:{name}" for name in ("one_map", "maps", "named_maps", "vector")]
CHEAP = ["resnet18", *TIMM, *OWN]
DETECTORS = pytest.param("mmdet.models.backbones:CSPDarknet", marks=pytest.mark.full)
SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (*BACKBONES, *LARGE_IN_TIMM)
    if name not in CHEAP
]


@pytest.mark.parametrize("name", [*CHEAP, *SLOW, DETECTORS])
def test_a_trained_backbone_is_exported_in_its_own_format(name, tmp_path):
    cfg = config_of(choose(**CPU, backbone=name, image_px=PX, epochs=2, batch_size=2))
    model = MODELS.build(cfg.model)
    model.on_training_length(2)
    model.on_epoch_length(1)
    model.train()
    before = {key: value.clone() for key, value in model.backbone.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    views = [
        torch.randint(256, (2, group.num_crops, 3, PX, PX), generator=generator, dtype=torch.uint8)
        for group in model.layout.groups
    ]
    wrapper = OptimWrapper(SGD(model.parameters(), lr=0.01))
    log = model.train_step({"inputs": views}, wrapper)
    assert all(torch.isfinite(value) for value in log.values())
    first, value = next(iter(model.backbone.named_parameters()))
    assert (value != before[first]).any()  # the gradient reaches the first layer
    weights = tmp_path / "run_backbone.pth"
    state = {key: value.contiguous() for key, value in model.backbone.state_dict().items()}
    torch.save(state, weights)
    write_description(weights, cfg)
    report = export_weights(str(weights), "pth", tmp_path / "own.pth")
    assert report.difference <= report.tolerance


@torch.no_grad()
@pytest.mark.parametrize("name", [*BACKBONES, "timm/test_resnet"])
def test_the_output_is_as_described(name):
    known = find_backbone(name, {64, 48}, 5)
    backbone = MODELS.build(dict(known.cfg))
    backbone.eval()
    for px in (64, 48):
        last = backbone(torch.zeros(1, 5, px, px))[-1]
        assert pool(last).shape == (1, known.channels)
        assert (last.dim() == 4) == known.gives_map


def test_networks_of_timm_are_described_by_their_output():
    assert find_backbone("timm/test_efficientnet", {64, 48}).cfg["out_type"] == "featmap"
    vit = find_backbone("timm/vit_tiny_patch16_224", {64, 40})
    # Its patches of 16 px do not divide 40 px.
    assert vit.cfg["options"] == {"dynamic_img_size": True, "dynamic_img_pad": True}
    assert (vit.channels, vit.gives_map) == (192, False)
    assert vit.file_name == "timm-vit_tiny_patch16_224"
    norm = find_backbone("timm/test_convnext", {64})  # normalises what it has pooled
    assert (norm.cfg["out_type"], norm.gives_map) == ("pooled", False)


def test_a_network_of_timm_that_gives_a_list_is_pooled_by_timm():
    found = find_backbone("timm/crossvit_tiny_240", {64, 48})
    assert (found.channels, found.gives_map, found.cfg["out_type"]) == (288, False, "pooled")


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ("timm/mixer_s32_224", "views of 64 px, 48 px, but timm/mixer_s32_224"),
        ("./own/nets.py:maps", r"without / and .py, but got ./own/nets.py; give own.nets, and"),
        ("nowhere:maps", "must be a module in .*No module named .nowhere"),
        (f"{NETS}:map", "has no attribute .map"),
        (f"{NETS}:with_width", "raises TypeError: .*argument: 'width'"),
        (f"{NETS}:number", "must return a torch.nn.Module, but returns a int"),
        (f"{NETS}:tokens", r"\(N, C\) for .*tokens is a Tensor \(2, 12, 256\)"),
        (f"{NETS}:nothing", "nothing is a NoneType;"),
        (f"{NETS}:narrow", "views .2, 3, (64, 64|48, 48).*RuntimeError: mat1 and mat2"),
        (f"{NETS}:size", r"gives \(2, \d+\) and \(2, \d+\), requires_grad=True"),
        (f"{NETS}:frozen", r"gives \(2, 12, 'h', 'w'\), requires_grad=False"),
    ],
)
def test_networks_that_cannot_be_trained_are_refused(backbone, message):
    with pytest.raises(UserValueError, match=message):
        find_backbone(backbone, {64, 48})


@pytest.mark.parametrize(
    ("name", "is_resnet"),
    [("resnet", True), ("zero_scaled", False), ("maps", False), ("timm/test_resnet", False)],
)
def test_a_resnet_is_known_by_its_class(name, is_resnet):
    backbone = name if "/" in name else f"{NETS}:{name}"
    recipe = choose(**CPU, epochs=30, image_px=64, backbone=backbone)
    assert recipe.backbone.is_resnet == is_resnet
    assert not recipe.backbone.has_stages
    message = "AdamW trains all networks but ResNets"
    assert (recipe.rows["optimizer"].reason == message) != is_resnet
    assert recipe.cfg.optim_wrapper.optimizer.lr == (2e-3 if is_resnet else 1e-3)
