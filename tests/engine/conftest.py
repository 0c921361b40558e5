"""Images and a finished training that several modules look at."""

import pytest
from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
from helpers.engine.pretrain_runner import make_runner
from helpers.saving.toy_checkpoint import toy_training, work  # noqa: F401  (fixtures)


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory):  # noqa: F811
    work_dir = tmp_path_factory.mktemp("whole")
    runner = make_runner(images, work_dir, max_epochs=4)
    runner.train()
    return runner, work_dir
