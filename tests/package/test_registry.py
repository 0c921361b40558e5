import mmengine.registry as root
import pytest
from mmengine.registry import DefaultScope

from mmssprl.engine.initial_weights import InitialWeightsHook
from mmssprl.models import SSPRL

pytestmark = pytest.mark.fence

SCOPES = ["mmengine", "mmpretrain"]
SCOPES += [pytest.param(name, marks=pytest.mark.full) for name in ("mmdet", "mmseg")]


@pytest.mark.parametrize("scope", SCOPES)
def test_other_scopes_reach_our_types_by_the_prefix(scope):
    cfg = {"type": "mmssprl.InitialWeightsHook", "weights": "x.pth"}
    assert isinstance(root.HOOKS.build({**cfg, "_scope_": scope}), InitialWeightsHook)
    with DefaultScope.overwrite_default_scope(scope):
        assert isinstance(root.HOOKS.build(cfg), InitialWeightsHook)
        assert root.MODELS.get("mmssprl.SSPRL") is SSPRL
