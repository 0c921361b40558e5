import shutil
from types import SimpleNamespace

import pytest
from helpers.saving.stopped_runs import train, write_pretraining
from torch.utils.data import DataLoader

from mmssprl.config.pretrain_checks import bytes_of_views
from mmssprl.datasets import UnlabeledImages, stack_views
from mmssprl.errors import UserOSError
from mmssprl.features.backbone import Crops
from mmssprl.pyramid import ViewLayout
from mmssprl.system.outputs import (
    check_room,
    prepare_output,
    whole_file,
    write_whole,
)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as file:
        file.write("caf\udce9.jpg")  # a name that is no UTF-8
        assert not path.exists()
    assert path.read_bytes() == b"caf\xe9.jpg"
    write_whole(path, "2")
    assert path.read_text() == "2"
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_of_an_output_is_made_before_the_work(tmp_path):
    assert prepare_output(tmp_path / "new" / "a.txt").parent.is_dir()


@pytest.fixture
def room(monkeypatch, tmp_path):
    """Make so many bytes free of shared memory, where there is none too."""

    def leave(free):
        usage = SimpleNamespace(total=64_000_000, free=free)
        monkeypatch.setattr(
            shutil, "disk_usage", lambda path: usage if path == folder else really(path)
        )

    folder, really = tmp_path / "shm", shutil.disk_usage
    folder.mkdir()
    monkeypatch.setattr("mmssprl.system.outputs.SHARED_MEMORY", folder)
    return leave


def loader(num_workers):
    return DataLoader(range(9), batch_size=3, num_workers=num_workers)


def test_what_is_loaded_ahead_must_fit(room, monkeypatch):
    room(12_000_000)  # 2 workers with 2 batches of 3 images each
    check_room(loader(2), 1_000_000)
    check_room(loader(0), 1_000_000_000)
    with pytest.raises(UserOSError, match=r"12\.0 MB, but .* 12\.0 of 64\.0 MB .*--shm-size"):
        check_room(loader(2), 1_000_001)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UserOSError, match=r"24\.0 MB, but"):
        check_room(loader(2), 1_000_000)
    room(65_536)  # hardly any is too little for whatever is loaded
    check_room(loader(0))
    with pytest.raises(UserOSError, match=r"num_workers=0"):
        check_room(loader(1))


def test_a_training_is_refused_before_it_starts(room, tmp_path):
    config = write_pretraining(tmp_path)
    room(65_536)
    with pytest.raises(UserOSError, match=r"--shm-size"):
        train(config, tmp_path / "run", options={"train_dataloader.num_workers": 2})
    assert not list((tmp_path / "run").glob("*.pth"))


def test_what_an_image_takes(tmp_path):
    write_pretraining(tmp_path)
    level = {"grid": 2, "resize_px": 32, "patch_px": 8, "num_sampled": 3}
    layout = {"image_px": 16, "num_small": 3, "small_px": 12, "levels": [level]}
    data = UnlabeledImages(
        str(tmp_path / "images"), pipeline=[{"type": "PyramidCrop", "layout": layout}]
    )
    batch = stack_views([data[0], data[1]])
    assert sum(views.nbytes for views in batch["inputs"]) == 2 * bytes_of_views(data)
    crops = Crops(16, ViewLayout.build(layout).levels)
    image = data.load_image(0)
    assert sum(each.nbytes for each in crops.cut(image)) == 3 * crops.num_pixels
