from pathlib import Path

import pytest
from helpers.experiments.tiny_benchmark import NARROW, RESNET50, save_backbone

from mmssprl.experiments.benchmark.protocols import Weights, find_weights


class TestFindWeights:
    def test_words_and_files_without_a_description_keep_the_protocols_backbone(self, tmp_path):
        file = save_backbone(tmp_path / "resnet.pth", with_config=False)
        assert find_weights(["random", str(file), "supervised"]) == [
            Weights("random", "random", None),
            Weights("resnet", str(file), None),
            Weights("supervised", "supervised", None),
        ]

    def test_words_take_the_backbone_of_the_files_unless_there_are_two(self, tmp_path):
        narrow = save_backbone(tmp_path / "a" / "narrow.pth")
        wide = save_backbone(tmp_path / "b" / "wide.pth", RESNET50)
        rows = find_weights([str(narrow), str(wide)])
        assert [row.backbone for row in rows] == [NARROW, RESNET50]
        for word in ("random", "supervised"):
            rows = find_weights([word, str(narrow)])
            assert [row.backbone for row in rows] == [NARROW, NARROW]
            with pytest.raises(ValueError, match="need one backbone .* --work-dir"):
                find_weights([word, str(narrow), str(wide)])

    def test_names_of_folders_tell_equal_names_apart(self, tmp_path, monkeypatch):
        names = ("a/backbone.pth", "b/backbone.pth", "c/other.pth", "c/random.pth")
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        monkeypatch.chdir(tmp_path / "a")
        files = ["backbone.pth", str(tmp_path / "b/backbone.pth"), "../c/other.pth"]
        rows = find_weights([*files, "../c/random.pth"])
        assert [row.name for row in rows] == ["a_backbone", "b_backbone", "other", "c_random"]
        assert [Path(row.start) for row in rows] == [tmp_path / name for name in names]

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (["random", "random"], "random is there twice; rename"),
            (["a/x.pth", "b/a/x.pth"], "a_x is there twice"),
        ],
    )
    def test_refuses_equal_names(self, values, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for path in (tmp_path / value for value in values):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        with pytest.raises(ValueError, match=message):
            find_weights(values)
