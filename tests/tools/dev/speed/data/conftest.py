import pytest

from tools.dev.speed.common import sample_images


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return sample_images.write_images(tmp_path_factory.mktemp("images"), 16)
