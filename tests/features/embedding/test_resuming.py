import json
import shlex

import numpy as np
import pytest
import torch
from helpers.features.probe_folders import write_image
from helpers.system.full_disk import fill_disk
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.features import FeatureBackbone, embedding, read_embeddings
from mmssprl.weights import load_backbone


@pytest.fixture
def command(config, photos, tmp_path):
    state = load_backbone("random", Config.fromfile(config)).state_dict()
    torch.save(state, tmp_path / "weights.pth")
    words = ["embed", tmp_path / "weights.pth", photos, tmp_path / "out" / "all.npz"]
    return [*map(str, words), "--num-workers", "0", "--batch-size", "2"]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out" / "all.npz"


@pytest.fixture
def parts(out):
    return out.with_name("all.npz.parts")


def run_until(number, kept_every, command, monkeypatch):
    """Stop it by Ctrl-C at the batch of a number, from 1."""
    normalise, calls = FeatureBackbone.normalise, []

    def stop(self, images):
        calls.append(len(images))
        if len(calls) == number:
            raise KeyboardInterrupt
        return normalise(self, images)

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "KEPT_EVERY_SECONDS", kept_every)
        patch.setattr(FeatureBackbone, "normalise", stop)
        assert main(command) == 130


@pytest.fixture
def stopped(command, monkeypatch, capsys):
    """Three batches have been kept."""
    run_until(4, 0.0, command, monkeypatch)
    assert "stopped" in capsys.readouterr().err


def test_a_stopped_one_goes_on_and_gives_the_same_file(command, out, stopped, capsys):
    assert not out.exists()
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"6 of 10 images are done, see {out}.parts" in printed
    assert [path.name for path in out.parent.iterdir()] == ["all.npz"]
    resumed = read_embeddings(out)
    assert main([*command, "--overwrite"]) == 0
    at_once = read_embeddings(out)
    assert resumed.names == at_once.names
    assert np.array_equal(resumed.features, at_once.features)
    assert resumed.about == at_once.about


def test_what_follows_on_a_lost_part_is_made_again(command, stopped, parts, out, capsys):
    sorted(parts.glob("*-*.npz"))[1].unlink()
    assert main(command) == 0
    assert "2 of 10 images are done" in capsys.readouterr().out
    assert read_embeddings(out).names == [f"a/{i}.jpg" for i in range(4)] + [
        f"b c/{i}.jpg" for i in range(4, 10)
    ]


def test_what_is_waiting_is_kept_when_it_is_stopped(command, out, monkeypatch):
    # No part is due for hours, and still only the batch that was interrupted is lost.
    run_until(3, 1e6, command, monkeypatch)
    parts = sorted(path.name for path in out.with_name("all.npz.parts").glob("*.npz"))
    assert parts == ["000000000000-000000000004.npz"]


def test_what_is_done_is_told_at_every_part(command, monkeypatch, capsys):
    monkeypatch.setattr(embedding, "KEPT_EVERY_SECONDS", 0.0)
    assert main(command) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " of 10 images" in line]
    assert lines == [f"{i} of 10 images" for i in (2, 4, 6, 8, 10)]


def test_other_images_weights_and_options_are_told(
    command, config, out, parts, photos, tmp_path, stopped, capsys
):
    about = json.loads((parts / "about.json").read_text())
    assert about["images"] == str(photos)
    assert (about["num_images"], about["image_px"], about["levels"]) == (10, 32, [])
    assert len(about["weights_sha256"]) == 64
    cfg = Config.fromfile(config)
    torch.save(load_backbone("random", cfg, seed=1).state_dict(), tmp_path / "weights.pth")
    assert main([*command, "--image-px", "24", "--patches"]) == 2
    told = capsys.readouterr().err
    assert "the weights and image_px and patches changed" in told
    assert "overwrite" in told
    write_image(photos / "a" / "new.jpg", ["red"], 77)
    assert main(command) == 2
    assert "the list of images" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert "going on" not in capsys.readouterr().out
    assert len(read_embeddings(out)) == 11


def test_nothing_is_replaced_silently(command, out, parts, capsys):
    assert main(command) == 0
    assert main(command) == 2
    assert "overwrite" in capsys.readouterr().err
    parts.mkdir()
    (parts / "mine.txt").touch()
    assert main([*command, "--overwrite"]) == 2
    assert str(parts) in capsys.readouterr().err
    assert (parts / "mine.txt").exists()


def test_unreadable_images_are_listed_beside_the_output(command, out, photos, capsys):
    bad = photos / "a" / "no\udce9\nline.jpg"  # a name that is no UTF-8, on two lines
    bad.write_text("no image")
    assert main(command) == 0
    listed = out.with_name("all.npz.unreadable.txt")
    assert f"left out: {listed}" in capsys.readouterr().out
    assert listed.read_bytes().startswith(b"a/no\xe9\\nline.jpg\tit cannot be decoded")
    assert len(read_embeddings(out)) == 10
    bad.unlink()
    assert main([*command, "--overwrite"]) == 0
    assert [path.name for path in out.parent.iterdir()] == ["all.npz"]


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_a_full_disk_is_told_in_one_line_and_costs_nothing(
    suffix, command, out, monkeypatch, capsys
):
    output = out.with_suffix(f".{suffix}")
    command[3] = str(output)
    with monkeypatch.context() as patch:
        fill_disk(patch, output.name)
        assert main(command) == 2
    told = capsys.readouterr().err
    assert f"{output}: the disk is full" in told
    assert told.count("\n") == 1
    assert main(command) == 0
    assert "going on: 10 of 10 images" in capsys.readouterr().out
    assert output.exists()


def test_the_next_command_takes_what_was_written(command, out, photos, capsys):
    assert main([*command, "--image-px", "64"]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])[4:]
    words[words.index("QUERY")] = str(photos / "b c")
    words = [str(out.with_name(word)) if word == "rows.png" else word for word in words]
    assert main([*words, "--num-workers", "0"]) == 0
