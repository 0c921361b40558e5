import pytest

from mmssprl.config.shipped import config_file
from mmssprl.errors import UserFileNotFoundError, UserValueError
from mmssprl.pretraining.methods import find_method


def test_a_dropped_method_and_a_dropped_config_name_what_to_use():
    with pytest.raises(UserValueError, match="ssprl-shared was dropped: its code is at commit"):
        find_method("ssprl-shared")
    with pytest.raises(UserFileNotFoundError, match="--size"):
        config_file("configs/baselines/simsiam_resnet18_photos.py")
