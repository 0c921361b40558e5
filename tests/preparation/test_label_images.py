import os

import mmcv
import numpy as np
import pytest
from PIL import Image
from prepare_folders import (
    ADDED,
    OWN,
    write_mat,
    write_png,
)

from mmssprl.preparation.label_images import read_mat_labels, read_png_labels, write_png_labels


class TestLabelImages:
    def test_the_struct_of_sbd_is_read(self, tmp_path):
        write_mat(tmp_path / "x.mat", np.array(ADDED["c"], np.uint8))
        labels = read_mat_labels(tmp_path / "x.mat")
        assert labels.dtype == np.uint8
        assert labels.tolist() == [[0, 4, 4], [0, 15, 15]]

    @pytest.mark.parametrize("mode", ["P", "L"])
    def test_indices_are_read_and_not_colours(self, tmp_path, mode):
        write_png(tmp_path / "x.png", OWN["a"], mode)
        assert Image.open(tmp_path / "x.png").mode == mode
        assert read_png_labels(tmp_path / "x.png").tolist() == [[0, 1, 255], [0, 0, 20]]

    @pytest.mark.parametrize("backend", ["pillow", "cv2"])
    def test_what_is_written_is_read_as_indices_by_mmcv(self, tmp_path, backend):
        labels = np.array(OWN["a"], np.uint8)
        write_png_labels(labels, tmp_path / "x.png")
        read = mmcv.imread(str(tmp_path / "x.png"), flag="unchanged", backend=backend)
        assert np.array_equal(read.squeeze(), labels)

    @pytest.mark.parametrize("value", [21, 254])
    def test_labels_out_of_range_name_the_file(self, tmp_path, value):
        labels = np.array([[0, value], [20, 255]], np.uint8)
        message = rf"must be 0 to 20 or 255, but there are \[{value}\]"
        write_mat(tmp_path / "x.mat", labels)
        with pytest.raises(ValueError, match=rf"x\.mat: labels {message}"):
            read_mat_labels(tmp_path / "x.mat")
        write_png(tmp_path / "x.png", labels)
        with pytest.raises(ValueError, match=rf"x\.png: labels {message}"):
            read_png_labels(tmp_path / "x.png")

    @pytest.mark.parametrize(
        ("labels", "got"),
        [(np.zeros((2, 3)), r"float64 of shape \(2, 3\)"), (np.zeros((2, 3, 3), int), "3, 3")],
    )
    def test_labels_must_be_a_table_of_whole_numbers(self, tmp_path, labels, got):
        write_mat(tmp_path / "x.mat", labels)
        with pytest.raises(ValueError, match=f"must be a table of whole numbers, but are .*{got}"):
            read_mat_labels(tmp_path / "x.mat")

    def test_a_mat_file_of_another_kind(self, tmp_path):
        write_mat(tmp_path / "x.mat", np.zeros((2, 2), np.uint8), field="Segments")
        with pytest.raises(ValueError, match=r"x\.mat: must be a MATLAB file .*Error: no field"):
            read_mat_labels(tmp_path / "x.mat")
        (tmp_path / "x.mat").write_text("no such file")
        with pytest.raises(ValueError, match=r"x\.mat: must be a MATLAB file with a struct GTcls"):
            read_mat_labels(tmp_path / "x.mat")

    def test_a_png_of_colours_or_cut_off(self, tmp_path):
        Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(tmp_path / "x.png")
        with pytest.raises(ValueError, match=r"\(mode L or P\), but has mode RGB"):
            read_png_labels(tmp_path / "x.png")
        (tmp_path / "x.png").write_bytes(b"nothing")
        with pytest.raises(ValueError, match=r"x\.png: must be a complete image"):
            read_png_labels(tmp_path / "x.png")

    def test_a_failed_write_leaves_nothing(self, tmp_path, monkeypatch):
        def fail(source, target):
            raise OSError("disk full")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_png_labels(np.zeros((2, 3), np.uint8), tmp_path / "x.png")
        assert not list(tmp_path.iterdir())
