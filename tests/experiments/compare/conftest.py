"""Leave out what mmengine does for every runner and data set: it takes longer than these do."""

import gc

import pytest
from mmengine.config import Config


@pytest.fixture(autouse=True, scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *args: 0)
        patch.setattr(Config, "pretty_text", "")
        yield
