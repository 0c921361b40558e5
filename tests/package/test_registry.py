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
    found = root.HOOKS.build(
        {"type": "mmssprl.InitialWeightsHook", "weights": "x.pth", "_scope_": package}
    )
    assert isinstance(found, InitialWeightsHook)
    with DefaultScope.overwrite_default_scope(package):
        hook = root.HOOKS.build({"type": "mmssprl.InitialWeightsHook", "weights": "x.pth"})
    assert isinstance(hook, InitialWeightsHook)


def test_bare_names_of_mmpretrain_are_found_in_a_process_that_imported_nothing_of_it():
    code = """
from mmssprl.registry import OPTIMIZERS, VISUALIZERS

print(OPTIMIZERS.get("LARS").__module__, VISUALIZERS.get("UniversalVisualizer").__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.split()[-2:]
    assert first.startswith("mmpretrain.")
    assert second.startswith("mmpretrain.")


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
