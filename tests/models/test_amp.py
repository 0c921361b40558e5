"""Mixed precision: mmengine's wrapper and loss scaling with LARC and the float32 parts."""

import torch
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch
from mmengine.optim import AmpOptimWrapper

from mmssprl.engine import LARC
from mmssprl.registry import MODELS

LR = 0.6


def make_model():
    torch.manual_seed(0)
    return MODELS.build(model_cfg({**BACKBONE}, in_channels=8))


def test_bfloat16_through_mmengine_s_wrapper(monkeypatch, on_cpu):
    # The wrapper refuses to be built without a GPU; autocast itself works on a CPU.
    module = "mmengine.optim.optimizer.amp_optimizer_wrapper.is_cuda_available"
    monkeypatch.setattr(module, lambda: True)
    model = make_model()
    wrapper = AmpOptimWrapper(
        optimizer=LARC(model.parameters(), lr=LR),
        dtype="bfloat16",
        loss_scale={"enabled": False},
    )
    seen = {"backbone": set(), "neck": set(), "scores": set()}

    def watch(module, name):
        module.register_forward_hook(lambda *args: seen[name].add(args[-1].dtype))

    watch(model.backbone.conv1, "backbone")
    for layers in model.neck.heads:
        watch(layers[0], "neck")
        watch(layers[-1], "neck")
    for scorer in (*model.head.prototypes, *model.head.correlation):
        watch(scorer, "scores")
    batch = packed_batch(LAYOUT, batch=8)
    single = make_model()
    data = single.data_preprocessor(batch, training=True)
    expected = sum(single(**data, mode="loss").values()).detach()
    start = [p.detach().clone() for p in model.parameters()]
    log = model.train_step(batch, wrapper)
    assert seen["backbone"] == seen["neck"] == {torch.bfloat16}
    assert seen["scores"] == {torch.float32}
    assert all(value.dtype == torch.float32 for value in log.values())
    torch.testing.assert_close(log["loss"], expected, rtol=0.02, atol=0)
    for before, after in zip(start, model.parameters(), strict=True):
        assert torch.isfinite(after).all()
        assert not torch.equal(before, after)
