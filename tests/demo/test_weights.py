import pytest
import yaml
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.datasets.scenes.generate import SIZE_PX, generate_sample
from mmssprl.demo import WEIGHTS
from mmssprl.probing import probe
from mmssprl.weights import find_config

CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"


@pytest.fixture(scope="module")
def described():
    models = yaml.safe_load(shipped("configs/ssprl/metafile.yml").read_text())["Models"]
    return next(model for model in models if model["Config"] == CONFIG)


def test_they_are_the_small_file_of_the_metafile(described):
    assert shipped(described["Weights"]).samefile(WEIGHTS)
    assert WEIGHTS.stat().st_size < 3e6


def test_their_config_is_found():
    found = find_config(str(WEIGHTS), None).model
    expected = Config.fromfile(shipped(CONFIG)).model
    assert found.backbone == expected.backbone
    assert found.layout.image_px == expected.layout.image_px
    # The defaults, used if the file names none.
    assert not {"mean", "std"} & expected.data_preprocessor.keys()


@pytest.mark.slow
def test_they_score_what_the_metafile_says(described, tmp_path):
    data = generate_sample(tmp_path) / "coco"
    found = probe(WEIGHTS, data, config=CONFIG, image_px=SIZE_PX, progress=False)
    said = described["Results"][0]["Metrics"]["mAP"]
    assert 100 * found.mAP == pytest.approx(said, abs=0.051)
