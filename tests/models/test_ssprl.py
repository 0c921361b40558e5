import torch
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch
from mmengine.optim import AmpOptimWrapper

from mmssprl.engine import LARC
from mmssprl.registry import MODELS

RESNET = ({"type": "mmpretrain.ResNet", "depth": 18}, 512)


def test_features_are_pooled_and_ordered_by_scale():
    model = MODELS.build(model_cfg(*RESNET)).eval()
    inputs = model.data_preprocessor(packed_batch(LAYOUT))["inputs"]
    with torch.no_grad():
        scales = model.extract_feat(inputs)
        assert [tuple(x.shape) for x in scales] == [(3, 1, 2, 512), (2, 4, 2, 512)]
        # Crop 3 of group 1 is patch 2 of view 0 (crop 0 is the small view).
        for crop, found in ((3, scales[1][0, 2]), (0, scales[0][2, 0])):
            alone = model.backbone(inputs[1][crop])[-1].mean(dim=(2, 3))
            torch.testing.assert_close(found, alone)


def test_health_is_of_what_is_configured():
    def health(**head):
        return MODELS.build(model_cfg(*RESNET, **head)).health()

    assert health() == {}
    assert health(freeze_iters=1) == {"frozen": 1}
    assert health(queue_length=4) == {"queue_fill": 0, "queues_in_use": 0}


def test_steps_are_measured_with_full_queues_in_use():
    cfg = model_cfg(*RESNET, queue_length=4, patch_queue_length=[6])
    model = MODELS.build({**cfg, "head": {**cfg["head"], "queue_start_epoch": 3}})
    model.on_epoch_length(5)
    random = torch.get_rng_state()
    model.fill_queues()
    assert torch.equal(torch.get_rng_state(), random)
    assert model.health() == {"queue_fill": 1, "queues_in_use": 1}
    for queue in model.head.queues:
        torch.testing.assert_close(queue.features.norm(dim=-1), torch.ones(2, queue.length))


def test_tells_the_size_of_its_checkpoint_with_the_queues_of_all_ranks(monkeypatch):
    cfg = model_cfg(*RESNET, queue_length=7, patch_queue_length=[5])
    model = MODELS.build(cfg)
    monkeypatch.setattr("mmengine.dist.all_gather", lambda features: [features] * 3)
    for num_ranks in (1, 3):
        monkeypatch.setattr("mmengine.dist.get_world_size", lambda count=num_ranks: count)
        expected = model.checkpoint_bytes(num_ranks)
        model.before_checkpoint()
        assert sum(value.nbytes for value in model.state_dict().values()) == expected
        model.after_checkpoint()
    # ranks x views x rows x D x bytes
    assert expected - model.checkpoint_bytes(1) == 3 * 2 * (7 + 5) * 8 * 4


def test_mixed_precision_with_larc_and_the_float32_parts(monkeypatch, on_cpu):
    # The wrapper requires a GPU, but autocast works on a CPU.
    module = "mmengine.optim.optimizer.amp_optimizer_wrapper.is_cuda_available"
    monkeypatch.setattr(module, lambda: True)
    torch.manual_seed(0)
    model = MODELS.build(model_cfg({**BACKBONE}, in_channels=8))
    options = {"dtype": "bfloat16", "loss_scale": {"enabled": False}}
    wrapper = AmpOptimWrapper(optimizer=LARC(model.parameters(), lr=0.6), **options)
    seen = {"backbone": set(), "neck": set(), "scores": set()}

    def watch(module, name):
        module.register_forward_hook(lambda *args: seen[name].add(args[-1].dtype))

    watch(model.backbone.conv1, "backbone")
    for layers in model.neck.heads:
        watch(layers[0], "neck")
        watch(layers[-1], "neck")
    for scorer in (*model.head.prototypes, *model.head.correlation):
        watch(scorer, "scores")
    log = model.train_step(packed_batch(LAYOUT), wrapper)
    assert seen["backbone"] == seen["neck"] == {torch.bfloat16}
    assert seen["scores"] == {torch.float32}
    assert all(value.dtype == torch.float32 for value in log.values())
