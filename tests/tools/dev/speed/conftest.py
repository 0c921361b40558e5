import pytest

from tools.dev.speed import models


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return models.write_images(tmp_path_factory.mktemp("images"), 16)
