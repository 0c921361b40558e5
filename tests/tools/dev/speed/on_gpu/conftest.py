import pytest
from fake_gpu import FakeMeter, SteppedMeter, tiny_config


@pytest.fixture
def meter():
    return FakeMeter()


@pytest.fixture
def tiny():
    return tiny_config()


@pytest.fixture
def stepped(monkeypatch):
    from mmssprl.models import SSPRL

    meter = SteppedMeter()
    train_step = SSPRL.train_step

    def counted(self, *args, **options):
        meter.states.append((self.head.is_frozen, self.head.uses_queues))
        losses = train_step(self, *args, **options)
        meter.step_ended()
        return losses

    monkeypatch.setattr(SSPRL, "train_step", counted)
    return meter
