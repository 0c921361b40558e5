import contextlib
import io
import json
import os

import numpy as np
import pytest
from helpers.datasets.forged_images import spoiled_files
from helpers.datasets.image_folders import build, folder, greens, read_list, save
from mmengine.config import Config
from mmengine.logging import MMLogger
from PIL import Image

from mmssprl.console.quiet import keep_off_console
from mmssprl.datasets.image_reading import ImageReadError, decode_image
from mmssprl.saving.run_record import record_run
from mmssprl.system.processes import call_in_process

pytestmark = pytest.mark.fault


def decoded(files):
    """How many of the files are decoded to the size in their header; the others are refused."""
    count = 0
    for data in files:
        with contextlib.suppress(ImageReadError):
            shape = decode_image(np.frombuffer(data, np.uint8).copy(), "image").shape
            with Image.open(io.BytesIO(data)) as image:
                assert sorted(shape[1:]) == sorted(image.size)
            count += 1
    return count


def test_spoiled_files_of_all_formats_are_decoded_or_refused():
    # In a process of its own, which a decoder may crash.
    assert 10 < call_in_process(decoded, list(spoiled_files(300))) < 290


NAMES = [b"\xff\xfe.png", b"line\nbreak.png", b"tab\tand\rreturn.png", b"'quoted\".png", b"-rf.png"]
NAMES += [b"a" * 250 + b".png", b" .png", b"back\\nslash.png", "ümlaut.png".encode()]


@pytest.fixture
def strange(tmp_path):
    """A read-only folder of strange names; the first three files are cut off."""
    root = folder(tmp_path / "images", 12)
    for i, name in enumerate(NAMES):
        path = os.fsencode(root) + b"/" + name
        os.rename(root / f"{i:02}.png", path)
        if i < 3:
            os.truncate(path, 60)
    root.chmod(0o555)
    yield root
    root.chmod(0o755)


def read_epochs(dataset, work_dir, epochs, change=lambda: None):
    """Read all images in each epoch; change them before the last. Their greens by epoch."""
    dataset.record_bad_images(work_dir / "bad_images.txt")
    found = []
    for epoch in range(epochs):
        if epoch == epochs - 1:
            change()
        dataset.set_epoch(epoch, seed=0)
        found.append(greens([dataset[i] for i in range(len(dataset))]))
    return found


def state(root):
    return sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(root))


def test_names_of_any_bytes_in_a_read_only_folder(strange, tmp_path):
    before = state(strange)
    (tmp_path / "run").mkdir()
    logger = MMLogger.get_instance("strange", log_file=str(tmp_path / "run/run.log"))
    keep_off_console(logger)
    dataset = build(strange, max_bad_share=0.5)
    record_run(Config({"work_dir": str(tmp_path / "run")}), dataset)
    read_epochs(dataset, tmp_path / "run", 1)
    lines = (tmp_path / "run/bad_images.txt").read_bytes().splitlines()
    listed = {os.path.basename(line.split(b"\t")[0]) for line in lines}
    assert listed == {b"\xff\xfe.png", rb"line\nbreak.png", rb"tab\tand\rreturn.png"}
    log = (tmp_path / "run/run.log").read_text()
    assert r"\udcff\udcfe.png: it cannot be decoded" in log
    assert r"line\nbreak.png: it cannot be decoded" in log
    assert json.loads((tmp_path / "run/run.json").read_text())["starts"][0]["images"]
    # Those that are known to be bad are found in the list again.
    dataset.get_subset_(len(dataset))  # has forgotten them
    dataset.record_bad_images(tmp_path / "run/bad_images.txt")
    assert int(dataset._bad_images._flags.sum()) == 3
    assert state(strange) == before


def test_images_that_change_between_two_epochs(tmp_path, warnings):
    root = folder(tmp_path / "images", 12)
    dataset = build(root, max_bad_share=0.1)

    def change():
        (root / "03.png").unlink()
        save(root / "04.png", 200, size=(90, 70))
        (root / "05.png").write_bytes((root / "06.png").read_bytes())
        save(root / "new.png")

    before, after = read_epochs(dataset, tmp_path, 2, change)
    assert [before.index(each) for each in before] == list(range(12))
    assert len(after) == 12  # still those that the run began with
    assert after[3] != before[3]  # another one took its place
    assert [after[4], after[5]] == [200, 6]
    ((path, reason),) = read_list(tmp_path / "bad_images.txt")
    assert path == str(root / "03.png")
    assert "No such file" in reason
    assert len(warnings) == 1
