"""Start-up, memory of a worker and tar files, on small data."""

from mmssprl.datasets import UnlabeledImages
from tools.dev.speed.data import large


def test_start_up_finds_every_image():
    folder, listed = large.startup_rows(2_500, gates=False)
    assert (folder.id, listed.id) == ("start_folder", "start_list")
    assert (folder.passed, listed.passed) == (None, None)
    assert 0 < folder.value < 10
    assert 0 < listed.value < 10
    assert "2,500 images" in folder.note


def test_worker_does_not_grow_by_looking_up_paths():
    ours, of_str = large.growth_rows(50_000)
    # 100,000 look-ups: measured 0.7 bytes each, and 15 for a list of str, of which each is copied.
    assert ours.value < 4
    assert of_str.value > 10
    assert ours.note == "50,000 paths take 2 MiB once, shared by all workers."


def test_reading_alone_decodes_nothing(images):
    dataset = UnlabeledImages(data_root=str(images))
    with large._no_decoding():
        assert dataset.load_image(0).shape == ()  # the last byte of the file
    assert dataset.load_image(0).shape == (3, 480, 640)


def test_tar_file_and_folder_are_read_in_turn(images, monkeypatch):
    rounds = []

    def fake_interleave(sides, num_rounds):
        for work in sides.values():
            work()
        rounds.append(num_rounds)
        return {"folder": [16.0, 32.0], "tar": [8.0, 16.0]}

    monkeypatch.setattr(large, "interleave", fake_interleave)
    both, reading = large.tar_rows(images, 2)
    assert (both.id, both.value, reading.id, reading.value) == (
        *("tar_ratio", 0.5),
        *("tar_read_ratio", 0.5),
    )
    assert both.note.startswith("750.00 against 1500.00 ms of CPU time per image")
    assert rounds == [2, 2]
