import shutil
import sys

import torch
from helpers.datasets.photo_folders import write_photos
from helpers.models import own_nets
from helpers.pretraining.paces import stub_pace

import mmssprl
from mmssprl.cli import main
from mmssprl.console.wording import named_modules

MODULE = "own_net_of_a_user"
CALLED = f"called/swav-small_{MODULE}-maps_backbone.pth"


def test_a_description_imports_nothing_that_the_user_has_not_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos", 16)
    shutil.copy(own_nets.__file__, f"{MODULE}.py")
    stub_pace(monkeypatch)
    words = f"pretrain photos --work-dir called --backbone {MODULE}:maps --epochs 2"
    words += " --num-workers 0 --batch-size 8 --image-px 32"
    assert main(words.split()) == 0
    # In a new process, which has imported nothing of the user's.
    monkeypatch.delitem(sys.modules, MODULE)
    named_modules.clear()
    export = ["export", CALLED, "--to", "pth", "--out", "own.pth"]
    assert main(export) == 2
    assert f"network: it would import '{MODULE}'; begin" in capsys.readouterr().err
    assert MODULE not in sys.modules
    resume = ["pretrain", "photos", "--work-dir", "called", "--resume"]
    assert main(["--import", MODULE, *export]) == 0
    assert own_nets.maps().load_state_dict(torch.load("own.pth", weights_only=True))
    assert main(["--import", MODULE, *resume]) == 0
    assert f"next: python -m mmssprl --import {MODULE} embed" in capsys.readouterr().out
    page = (tmp_path / "called/report.html").read_text()
    assert f"mmssprl --import {MODULE} probe swav-small_{MODULE}-maps_backbone.pth random" in page
    assert main(["neighbors", CALLED, "photos/1.png", "photos", "--out", "n.png"]) == 0  # named
    named_modules.clear()
    assert mmssprl.load_backbone(CALLED).num_features == 12  # imported
