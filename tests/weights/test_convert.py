import re

import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights import convert_weights, find_config, load_backbone
from mmssprl.weights.convert import default_out
from mmssprl.weights.key_tables import KEY_TABLES, SOURCES

QUEUE = {"queue": 1, "queue_ptr": 1}
OPENSELFSUP = {**QUEUE, "encoder_q": 8, "encoder_k": 134, "backbone": 126}
BYOL = {"online_net": 9, "target_net": 135, "backbone": 126, "head": 9}
INSLOC = {"backbone_k": 126, "neck": 1, "neck_k": 1, "queues": 1, "queue_ptr": 1}
PORT = {"encoder_q.layers": 120, "encoder_q.mlp": 4, "encoder_k": 250, **QUEUE}
# Key table: what the project saves, a source, and the parts left out, counted by hand.
CASES = {
    "swav": (published.swav, "swav", {"projection_head": 9, "prototypes": 1}),
    "moco": (published.moco, "moco", {"encoder_q.fc": 4, "encoder_k": 130, **QUEUE}),
    "moco-port": (published.detco_port, "detco", PORT),
    "densecl": (published.densecl, "densecl", {**OPENSELFSUP, "queue2": 1, "queue2_ptr": 1}),
    "openselfsup-moco": (published.openselfsup_moco, "detco", OPENSELFSUP),
    "byol": (published.byol, "byol", BYOL),
    "insloc": (published.insloc, "insloc", INSLOC),
    "insloc-c4": (published.insloc_c4, "insloc", {"backbone_k": 96, "roi_head_k": 30}),
    "backbone": (published.openmmlab, "maskco", {"head": 1}),
    "torchvision": (published.torchvision, "torchvision", {"fc": 2}),
    "extracted": (published.extracted, "densecl", {}),
    "extracted-detco": (published.extracted, "detco", {}),
    "detectron2": (published.detectron2, "detectron2", {"stem": 1}),
    "detectron2-fpn": (published.detectron2_fpn, "detectron2", {"backbone.fpn_lateral2": 1}),
    "detectron2-c4": (published.detectron2_c4, "insloc", {"proposal_generator": 1}),
}
NAMES = {"swav": "w.pth.tar", "moco": "w.pth.tar", "detectron2": "w.pkl"}


def table_of(case):
    return re.sub("-(c4|fpn|port|detco)$", "", case)


def test_every_key_table_has_a_case_here_and_a_source():
    cases = {table_of(case) for case in CASES} | {"ssprl"}
    assert cases == {table.name for table in KEY_TABLES}
    named = {table for name in SOURCES if name != "auto" for table in SOURCES[name]}
    assert named == {table.name for table in KEY_TABLES}


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return published.randomise(published.Narrow()).half().float()  # so that half is enough


@pytest.fixture
def trunk(net):
    return published.trunk_of(net)


class TestFeatures:
    @pytest.mark.parametrize("case", CASES)
    def test_are_those_of_the_source(self, case, net, trunk, tmp_path):
        project, source, left_out = CASES[case]
        name = NAMES.get(case, "w.pth")
        file = published.save(project(trunk), tmp_path / name)
        out = tmp_path / "ours" / "w.pth"
        report = convert_weights(file, source, out)
        images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
        expected = published.features(net, images, pads_outside=case == "swav")
        # What other commands get: the config beside the weights, the strict load, the output.
        backbone = load_backbone(str(out), find_config(str(out), None), seed=9)
        with torch.no_grad():
            torch.testing.assert_close(backbone(images)[-1], expected)
        table = table_of(case)
        assert report.key_table.name == table
        # By the keys alone, under a name that lies.
        file = file.rename(tmp_path / name.replace("w.", "byol_moco."))
        assert convert_weights(file, "auto", out, overwrite=True).key_table.name == table
        assert report.left_out == left_out
        counters = {"num_batches_tracked": 21} if table in ("detectron2", "extracted") else {}
        assert report.completed == counters
        assert report.num_backbone == (105 if counters else 126)
        assert report.num_read == report.num_backbone + sum(left_out.values())
        assert report.backbone == {"type": "ResNet", "depth": 18, "base_channels": 8}
        assert report.kept == {}
        # The written file is plain: names and nothing else, in torchvision's network.
        state = torch.load(out, weights_only=True)
        assert state.keys() == trunk.keys()
        assert state["conv1.weight"].dtype == torch.float32
        assert int(state["bn1.num_batches_tracked"]) == (0 if counters else 7)


class TestRefusals:
    def refused(self, content, source, tmp_path, match, **options):
        file = published.save(content, tmp_path / "w.pth")
        out = tmp_path / "ours" / "w.pth"
        with pytest.raises(ValueError, match=match):
            convert_weights(file, source, out, **options)
        assert not out.exists()
        assert not out.with_suffix(".json").exists()

    def test_tensors_that_are_missing_of_another_shape_or_without_a_place(self, trunk, tmp_path):
        content = published.torchvision(trunk)
        del content["layer2.0.conv1.weight"]
        content["conv1.weight"] = torch.ones(64, 3, 3, 3)
        content["layer4.1.bn9.bias"] = torch.ones(1)
        match = r"w.pth.*1 missing \(layer2.0.conv1.weight\).*1 unexpected \(layer4.1.bn9.bias\)"
        match += r".*\(64, 3, 3, 3\) instead of \(64, 3, 7, 7\)"
        self.refused(content, "torchvision", tmp_path, match)

    def test_another_source_none_that_is_known_and_a_config_of_none(self, trunk, tmp_path):
        match = r"moco or openselfsup-moco or extracted.*swav.*auto"
        self.refused(published.swav(trunk), "moco", tmp_path, match)
        content = {f"blocks.{i}.attn.weight": torch.ones(1) for i in range(7)}
        match = "7 keys.*blocks.0.attn.weight, .*, blocks.4.attn.weight.*ssprl.*torchvision"
        self.refused(content, "auto", tmp_path, match)
        content = published.torchvision(trunk)
        self.refused(content, "simclr", tmp_path, "ssprl, .*'simclr'")
        self.refused(content, "auto", tmp_path, "config .*torchvision", config="any.py")

    def test_files_that_are_there_or_not(self, trunk, tmp_path):
        with pytest.raises(FileNotFoundError, match="gone.pth"):
            convert_weights(tmp_path / "gone.pth", "auto", tmp_path / "out.pth")
        file = published.save(published.torchvision(trunk), tmp_path / "w.pth")
        for out in (file, tmp_path / "out.py"):
            with pytest.raises(ValueError, match=r"\.pth"):
                convert_weights(file, "auto", out, overwrite=True)
        for existing in ("out.pth", "out.json"):
            (tmp_path / existing).write_text("mine")
            with pytest.raises(FileExistsError, match=rf"{existing}.*overwrite"):
                convert_weights(file, "auto", tmp_path / "out.pth")
            assert (tmp_path / existing).read_text() == "mine"
            (tmp_path / existing).unlink()


def test_names_a_folder_of_its_own():
    out = default_out("a/b/densecl_1.6k.safetensors")
    assert out.as_posix() == "work_dirs/converted/densecl_1_6k/densecl_1_6k.pth"
