import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights import convert_weights


def port(trunk):
    """As shuuchen/DetCo.pytorch saves: stages a second time in ``layers``, heads in ``mlp``."""
    stages = {f"layers.{key}": value for key, value in trunk.items() if key.startswith("layer")}
    heads = published.under("mlp.0.", published.mlp(8, 8, 4))
    both = published.pair("encoder_q", "encoder_k", trunk, {**stages, **heads}, places=("", ""))
    state = published.under("module.", {**both, **published.queue()})
    return {"epoch": 200, "arch": "resnet50", "state_dict": state}


@pytest.mark.parametrize(("save", "table"), [(port, "moco"), (published.extracted, "extracted")])
def test_the_query_backbone_comes_out(save, table, tmp_path):
    torch.manual_seed(0)
    trunk = published.trunk_of(published.randomise(published.Narrow()))
    file = published.save(save(trunk), tmp_path / "detco.pth")
    report = convert_weights(file, "detco", tmp_path / "out" / "detco.pth")
    assert report.key_table.name == table
    found = torch.load(report.weights, weights_only=True)
    assert found.keys() == trunk.keys()
    assert all(torch.equal(found[key], trunk[key]) for key in trunk)
    if table == "moco":
        assert {"encoder_q.layers", "encoder_q.mlp", "encoder_k", "queue"} <= report.left_out.keys()
