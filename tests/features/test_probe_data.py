import json
import shutil

import pytest

from mmssprl.features import find_probe_data


class TestFindProbeData:
    def test_coco_labels(self, coco):
        data = find_probe_data(coco)
        assert (data.labelled.layout, data.classes) == ("COCO", ["green", "red"])
        assert (data.train.name, data.test.name) == ("train", "val")
        assert data.test.labels.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]] * 3
        assert data.train.paths[1] == str(coco / "train2014" / "1.jpg")

    @pytest.mark.parametrize("up", [0, 1, 2])
    def test_voc_labels_with_difficult_objects_unknown(self, voc, tmp_path, up):
        root = voc
        if up == 2:
            (tmp_path / "devkit").rename(tmp_path / "VOCdevkit")
            root = tmp_path
        elif up == 1:
            root = voc.parent
        data = find_probe_data(root)
        assert (data.labelled.layout, data.classes) == ("PASCAL VOC", ["green", "red", "zebra"])
        assert data.test.labels.tolist() == [[0, -1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]] * 3
        assert len(data.train.paths) == 24
        assert data.test.paths[0].endswith("JPEGImages/000024.jpg")

    def test_folders_that_hold_something_else(self, tmp_path, coco, voc):
        with pytest.raises(FileNotFoundError, match="DATA must be an existing folder"):
            find_probe_data(tmp_path / "gone")
        with pytest.raises(ValueError, match="has COCO and PASCAL VOC; give the folder of one"):
            find_probe_data(tmp_path)
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match="must hold labels .* holds none among 0 files"):
            find_probe_data(tmp_path / "empty")

    def test_splits_with_other_categories(self, coco):
        path = coco / "annotations" / "instances_val2014.json"
        content = json.loads(path.read_text())
        content["categories"][0]["name"] = "crimson"
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"differ in .*'crimson'"):
            find_probe_data(coco)

    def test_other_files_beside_cocos_own_are_not_read(self, coco):
        (coco / "annotations" / "captions_val2014.json").write_text("no JSON")
        (coco / "annotations" / "instances_val2017.json").write_text("no JSON")
        assert len(find_probe_data(coco).test.paths) == 12

    def test_of_several_years_of_voc_one_has_to_be_given(self, voc):
        shutil.copytree(voc, voc.parent / "VOC2012")
        with pytest.raises(ValueError, match="one year .* VOC2007/, VOC2012/"):
            find_probe_data(voc.parent)
        assert len(find_probe_data(voc).train.paths) == 24

    def test_incomplete_voc(self, voc):
        xml = voc / "Annotations" / "000003.xml"
        text = xml.read_text()
        xml.write_text(text[:-5])
        with pytest.raises(ValueError, match=r"000003.xml: must be XML"):
            find_probe_data(voc)
        xml.unlink()
        with pytest.raises(FileNotFoundError, match=r"have annotations, but 1 .*'000003'"):
            find_probe_data(voc)
        xml.write_text(text)
        (voc / "JPEGImages" / "000002.jpg").unlink()
        with pytest.raises(FileNotFoundError, match=r"1 of 36 have none, .*000002.xml"):
            find_probe_data(voc)
        for name in ("trainval", "test"):  # an image that no list names is not asked for
            path = voc / "ImageSets/Main" / f"{name}.txt"
            path.write_text(path.read_text().replace("000002\n", ""))
        assert len(find_probe_data(voc).train.paths) == 23
