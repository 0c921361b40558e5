import json

import pytest

from mmssprl.features import find_probe_data


class TestFindProbeData:
    def test_coco_labels(self, coco):
        data = find_probe_data(coco)
        assert (data.layout, data.classes) == ("COCO", ["green", "red"])
        assert (data.train.name, data.test.name) == ("train2014", "val2014")
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
        assert (data.layout, data.classes) == ("VOC", ["green", "red", "zebra"])
        assert data.test.labels.tolist() == [[0, -1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]] * 3
        assert len(data.train.paths) == 24
        assert data.test.paths[0].endswith("JPEGImages/000024.jpg")

    def test_folders_that_hold_something_else(self, tmp_path, coco, voc):
        with pytest.raises(FileNotFoundError, match="DATA must be an existing folder"):
            find_probe_data(tmp_path / "gone")
        with pytest.raises(FileNotFoundError, match=r"does not; pass .*/coco"):
            find_probe_data(tmp_path)
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match=r"\(COCO\) or .* \(VOC\), but .* does not\.$"):
            find_probe_data(tmp_path / "empty")
        voc.rename(coco / "VOC2007")
        with pytest.raises(ValueError, match="a folder in one layout"):
            find_probe_data(coco)

    def test_incomplete_coco(self, coco):
        path = coco / "annotations" / "instances_val2014.json"
        content = json.loads(path.read_text())
        content["categories"][0]["name"] = "crimson"
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"differing in \['crimson', 'red'\]"):
            find_probe_data(coco)
        path.unlink()
        with pytest.raises(FileNotFoundError, match="must have both train2014 and val2014"):
            find_probe_data(coco)

    def test_incomplete_voc(self, voc):
        xml = voc / "Annotations" / "000003.xml"
        text = xml.read_text()
        xml.write_text(text[:-5])
        with pytest.raises(ValueError, match=r"must be XML, but .*000003.xml is not"):
            find_probe_data(voc)
        xml.unlink()
        with pytest.raises(FileNotFoundError, match=r"annotations, but there is no .*000003.xml"):
            find_probe_data(voc)
        xml.write_text(text)
        image = voc / "JPEGImages" / "000002.jpg"
        image.rename(voc / "elsewhere.jpg")
        with pytest.raises(FileNotFoundError, match=r"1 of 24 do not, for example .*000002.jpg"):
            find_probe_data(voc)
        (voc / "elsewhere.jpg").rename(image)
        (voc / "ImageSets/Main/test.txt").unlink()
        with pytest.raises(FileNotFoundError, match="must have both trainval and test"):
            find_probe_data(voc.parent)
