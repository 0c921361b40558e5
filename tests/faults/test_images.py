import json
import os

import pytest
from helpers.datasets.image_folders import build, folder
from mmengine.config import Config
from mmengine.logging import MMLogger

from mmssprl.console.quiet import keep_off_console
from mmssprl.saving.run_record import record_run

pytestmark = pytest.mark.fault


NAMES = [b"\xff\xfe.png", b"line\nbreak.png", b"tab\tand\rreturn.png", b"'quoted\".png", b"-rf.png"]
NAMES += [b"a" * 250 + b".png", b" .png", b"back\\nslash.png", "ümlaut.png".encode()]


@pytest.fixture
def strange(tmp_path):
    """A read-only folder with strange file names; the first three files are truncated."""
    root = folder(tmp_path / "images", 12)
    for i, name in enumerate(NAMES):
        path = os.fsencode(root) + b"/" + name
        os.rename(root / f"{i:02}.png", path)
        if i < 3:
            os.truncate(path, 60)
    root.chmod(0o555)
    yield root
    root.chmod(0o755)


def state(root):
    return sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(root))


def test_names_of_any_bytes_in_a_read_only_folder(strange, tmp_path):
    before = state(strange)
    (tmp_path / "run").mkdir()
    logger = MMLogger.get_instance("strange", log_file=str(tmp_path / "run/run.log"))
    keep_off_console(logger)
    dataset = build(strange, max_bad_share=0.5)
    record_run(Config({"work_dir": str(tmp_path / "run")}), dataset)
    dataset.record_bad_images(tmp_path / "run/bad_images.txt")
    dataset.set_epoch(0, seed=0)
    assert len([dataset[i] for i in range(len(dataset))]) == 12
    lines = (tmp_path / "run/bad_images.txt").read_bytes().splitlines()
    listed = {os.path.basename(line.split(b"\t")[0]) for line in lines}
    assert listed == {b"\xff\xfe.png", rb"line\nbreak.png", rb"tab\tand\rreturn.png"}
    log = (tmp_path / "run/run.log").read_text()
    assert r"\udcff\udcfe.png: it cannot be decoded" in log
    assert r"line\nbreak.png: it cannot be decoded" in log
    assert json.loads((tmp_path / "run/run.json").read_text())["starts"][0]["images"]
    assert state(strange) == before
