"""Start-up and memory of a worker, on small data."""

from tools.dev.speed import large


def test_start_up_finds_every_image():
    row = large.startup_row(2_500, gates=False)
    assert (row.id, row.passed) == ("start_folder", None)
    assert 0 < row.value < 10
    assert "2,500 images" in row.note


def test_worker_does_not_grow_by_looking_up_paths():
    ours = large.growth_row(50_000)
    # 100,000 look-ups: measured 0.7 bytes each, and 15 for a list of str, of which each is copied.
    assert ours.value < 4
    assert ours.note == "50,000 paths take 2 MiB once, shared by all workers."
    names = [f"n{i:08}.JPEG" for i in range(50_000)]
    assert large.growth_bytes(lambda index: names[index], 50_000) > 10 * 100_000
