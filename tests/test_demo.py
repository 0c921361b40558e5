import csv
import json

import pytest

from mmssprl import demo
from mmssprl.datasets.scenes import generate_scenes


def result(method, seed, score, epochs=6, seconds=10.0):
    return {
        "method": method.title,
        "seed": seed,
        "mAP": score,
        "epochs": epochs,
        "seconds": seconds,
    }


RESULTS = [
    result(demo.SSPRL, 1, 0.24, seconds=30.0),
    result(demo.SSPRL, 0, 0.22, seconds=34.0),
    result(demo.SWAV_EPOCHS, 0, 0.19, seconds=9.0),
    result(demo.SWAV_EPOCHS, 1, 0.20, seconds=9.0),
    result(demo.SWAV_TIME, 0, 0.21, epochs=21),
    result(demo.SWAV_TIME, 1, 0.21, epochs=21),
    result(demo.RANDOM, 0, 0.17, epochs=0, seconds=0.0),
    result(demo.RANDOM, 1, 0.15, epochs=0, seconds=0.0),
]


def test_table_by_hand():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in demo.format_table(RESULTS).splitlines()
    ]
    assert rows[2] == ["random weights", "0", "0", "17.0 / 15.0", "16.0 ± 1.4", ""]
    assert rows[3][:3] == ["SwAV, equal epochs", "6", "9"]
    assert rows[5] == ["SS-PRL", "6", "32", "22.0 / 24.0", "23.0 ± 1.4", "+7.0"]


def test_equal_time_is_taken_from_the_measured_seconds():
    # 32 s of SS-PRL at 1.5 s an epoch of SwAV.
    assert demo._epochs_in_equal_time(RESULTS) == 21


def test_csv_holds_every_run(tmp_path):
    demo._write_csv(RESULTS, tmp_path / "results.csv")
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(RESULTS)
    assert rows[0] == {
        "method": "SS-PRL",
        "seed": "0",
        "mAP": "0.22",
        "epochs": "6",
        "seconds": "34.0",
    }


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=40, num_val=20, size_px=96, progress=False)


@pytest.mark.parametrize("method", [demo.SSPRL, demo.SWAV_TIME, demo.RANDOM])
def test_a_run_trains_probes_and_is_not_done_twice(method, scenes, tmp_path):
    run = demo.Run(method, 0, tmp_path / "run", scenes, epochs=1)
    first = demo.execute(run)
    if method is demo.SSPRL:
        for path in demo._draw(run, tmp_path):
            assert path.stat().st_size > 10_000
    assert 0 < first["mAP"] < 1
    assert first["epochs"] == (1 if method.trains else 0)
    assert json.loads(run.result_file.read_text()) == first
    files = sorted(path.name for path in run.work_dir.iterdir())
    assert any(name.endswith("_backbone.pth") for name in files) == method.trains
    run.result_file.write_text(json.dumps({**first, "mAP": 0.5}))
    assert demo.execute(run)["mAP"] == 0.5


def test_a_folder_of_the_user_is_refused_and_left_as_it_was(tmp_path):
    photo = tmp_path / "scenes" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="needs a folder of its own, but .* other files"):
        demo.run_demo(tmp_path, num_seeds=1)
    assert photo.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [photo.parent]


def test_its_own_folder_is_taken_again(tmp_path):
    demo.claim(tmp_path / "new" / "demo")
    (tmp_path / "new" / "demo" / "table.md").write_text("")
    demo.claim(tmp_path / "new" / "demo")
    assert (tmp_path / "new" / "demo" / "table.md").exists()
