import pytest
from mmengine.config import Config

from mmssprl.errors import UserRuntimeError
from mmssprl.runs.devices import choose_epochs, gpus_of_run


@pytest.fixture
def began_on(monkeypatch):
    """Resume a pre-training that began on some GPUs, where others are found."""

    def resume(began, found):
        monkeypatch.setattr("torch.cuda.device_count", lambda: found)
        step = {"base_batch_size": 32 * began}
        return gpus_of_run(Config({"train_dataloader": {"batch_size": 32}, "auto_scale_lr": step}))

    return resume


@pytest.mark.parametrize(
    ("began", "found", "resumes"), [(1, 0, 0), (1, 4, 1), (2, 2, 2), (2, 4, 2)]
)
def test_a_pretraining_resumes_on_as_many_gpus_as_it_began_on(began, found, resumes, began_on):
    assert began_on(began, found) == resumes


@pytest.mark.parametrize(("began", "found"), [(2, 1), (4, 0)])
def test_fewer_gpus_than_it_began_on_are_refused(began, found, began_on):
    with pytest.raises(UserRuntimeError, match=f"began on {began} GPUs, here are {found};"):
        began_on(began, found)


def test_a_finetuning_resumes_on_all_gpus(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert gpus_of_run(Config({"train_dataloader": {"batch_size": 32}})) == 3


@pytest.mark.parametrize(
    ("num_images", "epochs"), [(100, 100), (2_000, 10), (450, 40), (100_000, 10)]
)
def test_epochs_see_about_as_many_images_within_limits(num_images, epochs):
    """20,000 images: 44 epochs of 450 are rounded to tens, and 200 of 100 are at most 100."""
    assert choose_epochs(20_000, num_images, (10, 100)) == epochs
