import pytest
import torch
import yaml
from mmengine.config import Config

from mmssprl import load_backbone
from mmssprl.config.shipped import shipped
from mmssprl.datasets.scenes.generate import SIZE_PX, generate_sample
from mmssprl.demo import WEIGHTS
from mmssprl.features import probe
from mmssprl.weights import find_config

CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"


@pytest.fixture(scope="module")
def described():
    models = yaml.safe_load(shipped("configs/ssprl/metafile.yml").read_text())["Models"]
    return next(model for model in models if model["Config"] == CONFIG)


def test_they_are_the_file_of_the_metafile_and_small(described):
    assert shipped(described["Weights"]).samefile(WEIGHTS)
    assert WEIGHTS.stat().st_size < 3e6


def test_they_load_into_the_backbone_of_their_config_and_change_it():
    state = torch.load(WEIGHTS, weights_only=True)
    model = load_backbone(WEIGHTS, CONFIG)
    own = model.backbone.state_dict()
    assert set(state) == set(own)
    assert all(torch.equal(state[name], value) for name, value in own.items())
    images = torch.rand(2, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert not torch.allclose(model(images), load_backbone("random", CONFIG)(images), atol=0.1)


def test_commands_find_their_config_beside_them():
    found, shipped_one = find_config(str(WEIGHTS), None), Config.fromfile(shipped(CONFIG))
    assert found.model.backbone == shipped_one.model.backbone
    assert found.model.layout == shipped_one.model.layout
    for key in ("mean", "std"):  # the usual ones, which are taken where the file names none
        assert key not in shipped_one.model.data_preprocessor


@pytest.mark.slow
def test_they_score_what_the_metafile_says(described, tmp_path):
    data = generate_sample(tmp_path) / "coco"
    found = probe(WEIGHTS, data, config=CONFIG, image_px=SIZE_PX, progress=False)
    said = described["Results"][0]["Metrics"]["mAP"]
    assert 100 * found.mAP == pytest.approx(said, abs=0.051)
