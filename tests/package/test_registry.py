import subprocess
import sys

import mmengine.registry as root
import pytest
from mmengine.registry import DefaultScope

from mmssprl import registry
from mmssprl.datasets import UnlabeledImages
from mmssprl.engine.initial_weights import InitialWeightsHook
from mmssprl.models import SSPRL


@pytest.mark.parametrize("scope", ["mmengine", "mmpretrain"])
def test_other_scopes_reach_our_types_by_the_prefix(scope):
    with DefaultScope.overwrite_default_scope(scope):
        assert root.HOOKS.get("mmssprl.InitialWeightsHook") is InitialWeightsHook
        assert root.MODELS.get("mmssprl.SSPRL") is SSPRL


@pytest.mark.full
@pytest.mark.parametrize("package", ["mmdet", "mmseg"])
def test_detection_and_segmentation_configs_reach_our_types_by_the_prefix(package):
    cfg = {"type": "mmssprl.InitialWeightsHook", "weights": "x.pth"}
    assert isinstance(root.HOOKS.build({**cfg, "_scope_": package}), InitialWeightsHook)
    with DefaultScope.overwrite_default_scope(package):
        assert isinstance(root.HOOKS.build(cfg), InitialWeightsHook)


def test_bare_names_of_mmpretrain_are_found_in_a_process_that_imported_nothing_of_it():
    code = "from mmssprl.registry import OPTIMIZERS as O, VISUALIZERS as V\n"
    code += "print(O.get('LARS').__module__, V.get('UniversalVisualizer').__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()[-2:]
    assert [name.partition(".")[0] for name in modules] == ["mmpretrain", "mmpretrain"]


@pytest.mark.parametrize("kind", ["UnlabeledImages", "mmssprl.UnlabeledImages", UnlabeledImages])
def test_class_of_a_type_in_every_form(kind):
    assert registry.class_of(kind, registry.DATASETS) is UnlabeledImages


@pytest.mark.full
@pytest.mark.parametrize("package", ["mmdet", "mmseg"])
def test_class_of_looks_in_the_scope_of_the_config(package):
    found = registry.class_of("ResNet", registry.MODELS, package)
    assert found.__module__.startswith(f"{package}.")
    kind = registry.class_of("mmssprl.UnlabeledImages", registry.DATASETS, package)
    assert kind is UnlabeledImages
