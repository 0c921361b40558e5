import shutil
import sys
from pathlib import Path

import torch
from helpers.datasets.photo_folders import write_photos
from helpers.models import own_nets
from helpers.pretraining.paces import stub_pace
from helpers.saving.stopped_runs import assert_equal

import mmssprl
from mmssprl.cli import main
from mmssprl.system.trusted_modules import named_modules

MODULE = "own_net_of_a_user"
RUN = Path("called")
WEIGHTS = RUN / f"swav-small_{MODULE}-maps_backbone.pth"


def state_of(path):
    return torch.load(path, weights_only=True)


def test_a_resumed_run_is_bit_equal_and_only_what_the_user_has_named_is_imported(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos", 16)
    shutil.copy(own_nets.__file__, f"{MODULE}.py")
    stub_pace(monkeypatch)
    words = f"pretrain photos --work-dir {RUN} --backbone {MODULE}:maps --epochs 2 --num-workers 0"
    words += " --batch-size 8 --image-px 32 --cfg-options default_hooks.checkpoint.max_keep_ckpts=2"
    assert main(words.split()) == 0
    whole = state_of(WEIGHTS)
    # In a new process, which has imported nothing of the user's.
    monkeypatch.delitem(sys.modules, MODULE)
    named_modules.clear()
    export = ["export", str(WEIGHTS), "--to", "pth", "--out", "own.pth"]
    assert main(export) == 2
    assert f"network: it would import '{MODULE}'; begin" in capsys.readouterr().err
    assert MODULE not in sys.modules
    assert main(["--import", MODULE, *export]) == 0
    assert own_nets.maps().load_state_dict(state_of("own.pth"), strict=True)
    for name in ("epoch_2.pth", "last_checkpoint", WEIGHTS.name):
        (RUN / name).unlink()
    named_modules.clear()
    resume = ["pretrain", "photos", "--work-dir", str(RUN), "--resume"]
    assert main(["--import", MODULE, *resume]) == 0
    assert_equal(state_of(WEIGHTS), whole, "weights")
    assert f"next: python -m mmssprl --import {MODULE} embed" in capsys.readouterr().out
    page = (RUN / "report.html").read_text()
    assert f"mmssprl --import {MODULE} probe swav-small_{MODULE}-maps_backbone.pth random" in page
    images = ("photos/1.png", "photos")
    assert main(["neighbors", str(WEIGHTS), *images, "--out", "n.png"]) == 0  # named
    named_modules.clear()
    assert mmssprl.load_backbone(WEIGHTS).num_features == 12  # imported
