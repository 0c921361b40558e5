import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image
from torch import nn

from mmssprl.datasets import ImageReadError
from mmssprl.errors import message_for_user
from mmssprl.features import LabelledImages, extract_features, find_probe_data
from mmssprl.weights import load_backbone


class TestExtractFeatures:
    def test_equals_the_model_on_a_hand_made_crop(self, tmp_path, config):
        pixels = np.random.default_rng(0).integers(0, 256, (70, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        backbone = load_backbone("random", Config.fromfile(config))
        dataset = LabelledImages([tmp_path / "a.png"], torch.tensor([[1, -1]]), 56)
        features, labels = extract_features(
            backbone, dataset, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0), progress=False
        )
        # 56 * 256 / 224 = 64 is the shorter side already; the centre starts at (7, 4).
        crop = torch.from_numpy(pixels)[7:63, 4:60].permute(2, 0, 1).float()
        crop = (crop - torch.tensor([1.0, 2, 3])[:, None, None]) / torch.tensor([4.0, 5, 6])[
            :, None, None
        ]
        with torch.no_grad():
            expected = backbone(crop[None])[-1].mean(dim=(2, 3))
        torch.testing.assert_close(features, expected)
        assert labels.tolist() == [[1, -1]]

    def test_the_shorter_side_is_resized_to_256_of_224(self, tmp_path):
        # Columns rise from 0 to 255: the centre crop keeps 7/8 of the shorter side.
        ramp = np.linspace(0, 255, 160).astype(np.uint8)
        Image.fromarray(np.broadcast_to(ramp[None, :, None], (400, 160, 3)).copy()).save(
            tmp_path / "a.png"
        )
        image, _ = LabelledImages([tmp_path / "a.png"], torch.zeros(1, 1), 56)[0]
        assert image.shape == (3, 56, 56)
        assert image[0, 0, 0].item() == pytest.approx(255 / 16, abs=3)
        assert image[0, 0, -1].item() == pytest.approx(255 * 15 / 16, abs=3)

    def test_order_and_values_do_not_depend_on_batches_or_workers(self, coco, config):
        data = find_probe_data(coco)
        dataset = LabelledImages(data.test.paths, data.test.labels, 32)
        backbone = load_backbone("random", Config.fromfile(config))
        one, labels = extract_features(backbone, dataset, batch_size=12, progress=False)
        two, _ = extract_features(backbone, dataset, batch_size=5, num_workers=2, progress=False)
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)
        assert torch.equal(labels, data.test.labels)

    def test_runs_in_eval_mode_and_restores_the_mode(self):
        backbone = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3)).train()
        backbone[1].eval()
        items = [(torch.full((3, 2, 2), 7, dtype=torch.uint8), torch.zeros(1))] * 3
        features, _ = extract_features(
            backbone, items, mean=(0.0,) * 3, std=(1.0,) * 3, progress=False
        )
        assert backbone[0].running_mean.abs().max() == 0
        assert features.mean().item() == pytest.approx(7, rel=1e-4)
        assert (backbone[0].training, backbone[1].training) == (True, False)
        assert not features.is_inference()

    @pytest.mark.parametrize("shown", [True, False])
    def test_every_batch_moves_a_bar_only_when_asked(self, shown, monkeypatch):
        seen = []

        def watch(batches, description, **options):
            seen.append((len(batches), description, options))
            return batches

        monkeypatch.setattr("mmssprl.features.labelled_images.watch", watch)
        items = [(torch.zeros(3, 2, 2, dtype=torch.uint8), torch.zeros(1))] * 3
        extract_features(nn.Identity(), items, batch_size=2, progress=shown)
        assert seen == [(2, "features", {"shown": shown})]

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_an_unreadable_image_is_named(self, tmp_path, num_workers):
        (tmp_path / "bad.jpg").write_text("no image")
        dataset = LabelledImages([tmp_path / "bad.jpg"] * 3, torch.zeros(3, 1), 8)
        with pytest.raises(ImageReadError, match=r"^/.*bad.jpg: must be a complete image") as info:
            extract_features(nn.Identity(), dataset, num_workers=num_workers, progress=False)
        assert message_for_user(info.value)

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_unreadable_images_can_be_left_out(self, tmp_path, num_workers):
        (tmp_path / "bad.jpg").write_text("no image")
        Image.new("RGB", (8, 8), (9, 9, 9)).save(tmp_path / "good.png")
        names = ["bad.jpg", "bad.jpg", "good.png", "bad.jpg", "good.png"]
        labels = torch.arange(5)[:, None]
        dataset = LabelledImages([tmp_path / name for name in names], labels, 8)
        options = {"batch_size": 2, "num_workers": num_workers, "progress": False}
        features, found = extract_features(
            nn.Identity(), dataset, leave_out_unreadable=True, **options
        )
        assert found.flatten().tolist() == [2, 4]
        assert features.shape == (2, 3)
        dataset = LabelledImages([tmp_path / "bad.jpg"], labels[:1], 8)
        with pytest.raises(ImageReadError, match=r"bad.jpg: must be a complete image"):
            extract_features(nn.Identity(), dataset, leave_out_unreadable=True, **options)

    def test_rejects_bad_data(self, tmp_path):
        with pytest.raises(ValueError, match="at least one image, but it is empty"):
            extract_features(nn.Identity(), [], progress=False)
        with pytest.raises(ValueError, match="got 1 images and 2 rows"):
            LabelledImages(["a"], torch.zeros(2, 1))
        with pytest.raises(ValueError, match="image_px must be a positive number .* got 0"):
            LabelledImages(["a"], torch.zeros(1, 1), 0)
        items = [(torch.zeros(3, 2, 2, dtype=torch.uint8), torch.zeros(1))] * 3
        with pytest.raises(ValueError, match="3 of 3 images gave NaN"):
            extract_features(nn.Identity(), items, std=(0.0,) * 3, mean=(0,) * 3, progress=False)
