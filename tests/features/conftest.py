"""A config and labelled images that the tests of the probe share."""

import pytest
from helpers.features.probe_folders import write_coco, write_config, write_voc


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


@pytest.fixture
def coco(tmp_path):
    return write_coco(tmp_path)


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path)
