import json
import os
import signal
import subprocess
import sys
import time

import lmdb
import pytest
from image_folders import build, flip, folder, greens

from mmssprl.cli import main, pack
from mmssprl.datasets import pack_sources, packed_images, packing


def test_pack_again_and_check(tmp_path, capsys):
    root, out = folder(tmp_path / "images", 5), str(tmp_path / "out.lmdb")
    (root / "03.png").write_bytes(b"")
    num_bytes = sum(path.stat().st_size for path in root.iterdir())
    assert main(["pack", str(root), out]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("packed 5 of 5 images, ")
    assert lines[1].startswith("verified 5 of 5 images, ")
    assert lines[2:] == [
        f"5 images, {num_bytes:,} bytes",
        "1 empty files, packed as they are:",
        "  '03.png'",
        f"complete: {out}; use it as data_root of UnlabeledImages",
    ]
    assert main(["pack", str(root), out]) == 0
    assert capsys.readouterr().out == f"{out} is complete already and was left alone: 5 images\n"
    assert main(["pack", "--check", out]) == 0
    assert capsys.readouterr().out.endswith("\nall checksums are right\n")


def test_list_and_coco_file_are_found_from_here_and_keep_their_order(tmp_path, monkeypatch):
    root = folder(tmp_path / "images", 4)
    (tmp_path / "list.txt").write_text("03.png\n01.png\n")
    images = [{"id": i, "file_name": f"{i:02}.png"} for i in (2, 0)]
    (tmp_path / "coco.json").write_text(json.dumps({"images": images}))
    monkeypatch.chdir(tmp_path)
    assert main(["pack", "images", "a.lmdb", "--ann-file", "list.txt"]) == 0
    assert main(["pack", "images", "b.lmdb", "--ann-file", "coco.json"]) == 0
    assert greens(build("a.lmdb")) == [3, 1]
    assert greens(build("b.lmdb")) == [2, 0]
    assert root.is_dir()


def test_check_of_a_damaged_file_exits_with_1(tmp_path, capsys):
    root, out = folder(tmp_path / "images", 12), tmp_path / "out.lmdb"
    assert main(["pack", str(root), str(out)]) == 0
    for index in range(12):
        flip(out, (root / f"{index:02}.png").read_bytes())
    capsys.readouterr()
    assert main(["pack", "--check", str(out)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["12 images, 0 bytes", "12 bad:", "  '00.png'"]
    assert lines[-2:] == [
        "  and 2 more",
        f"damaged: 12 images; delete {out} and pack the images again",
    ]


def test_check_of_a_file_that_is_not_complete_exits_with_1(tmp_path, capsys):
    root, out = folder(tmp_path / "images", 3), str(tmp_path / "out.lmdb")
    assert main(["pack", str(root), out]) == 0
    with lmdb.open(out, subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.delete(packed_images.COMPLETE)
        txn.delete(packed_images.image_key(2))
    assert main(["pack", "--check", out]) == 1
    assert "\nnot complete, of 3 images; run pack again" in capsys.readouterr().out
    assert main(["pack", str(root), out]) == 0
    assert main(["pack", "--check", out]) == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "pack needs DIR and OUT, or --check FILE"),
        (["images"], "pack needs DIR and OUT"),
        (["images", "out.lmdb", "--check", "x"], "verifies a packed file alone"),
        (["--check", "none.lmdb"], "none.lmdb is missing"),
        (["--check", "images/00.png"], "must be a file of `python -m mmssprl pack`"),
        (["none", "out.lmdb"], "must be a folder of images"),
        (["packed.lmdb", "out.lmdb"], "DIR must be a folder of images, but packed.lmdb is packed"),
        (["images", "out.lmdb", "--ann-file", "none.txt"], "ann_file must be a file"),
        (["images", "images/00.png"], "but is something else"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, monkeypatch, argv, message):
    folder(tmp_path / "images", 2)
    monkeypatch.chdir(tmp_path)
    assert main(["pack", "images", "packed.lmdb"]) == 0
    capsys.readouterr()
    assert main(["pack", *argv]) == 2
    text = capsys.readouterr().err
    assert text.startswith("mmssprl pack: error: ")
    assert message in text
    assert text.count("\n") == 1
    assert not os.path.exists("out.lmdb")


def test_control_c_is_no_traceback_and_the_next_run_goes_on(tmp_path, monkeypatch, capsys):
    root, out = folder(tmp_path / "images", 40), str(tmp_path / "out.lmdb")
    read = pack_sources._value

    def slow(path):
        time.sleep(0.05)
        if path.endswith("20.png"):
            os.kill(os.getpid(), signal.SIGINT)
        return read(path)

    monkeypatch.setattr(packing, "_COMMIT_IMAGES", 4)
    monkeypatch.setattr(pack_sources, "_BLOCK_IMAGES", 4)
    with monkeypatch.context() as patch:
        patch.setattr(pack_sources, "_value", slow)
        assert main(["pack", str(root), out]) == 130
    assert capsys.readouterr().out.endswith(
        "stopped; run the same command again, packing goes on where it was\n"
    )
    assert main(["pack", str(root), out]) == 0
    text = capsys.readouterr().out
    assert "going on: " in text.splitlines()[0]
    assert greens(build(out)) == list(range(40))


def test_help_answers_without_the_data_sets():
    code = "import sys, mmssprl.cli.pack; print({'lmdb', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert pack.run.__doc__
