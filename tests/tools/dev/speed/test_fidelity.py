"""How near our pixels are to PIL's and torchvision's, and whether a difference would be seen."""

from mmssprl.datasets.transforms import pyramid_crop
from tools.dev.speed import fidelity


def test_fidelity_to_pil_and_torchvision(images):
    paths = sorted(images.iterdir())[:4]
    assert fidelity.share_within_one_level(paths) >= 0.99
    assert fidelity.jitter_difference(paths) <= 2 / 255
    assert fidelity.blur_share(paths) > 0.99


def test_fidelity_sees_other_pixels(images, monkeypatch):
    paths = sorted(images.iterdir())[:2]
    steps = fidelity._STEPS
    brightness, contrast = list(steps)[:2]
    swapped = {**steps, brightness: steps[contrast], contrast: steps[brightness]}
    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "_STEPS", swapped)
        assert fidelity.jitter_difference(paths) > 2 / 255
    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "_blurred", lambda images, params: images)
        assert fidelity.blur_share(paths) < 0.9
    interpolate, pil_crop = pyramid_crop.interpolate, fidelity._pil_crop

    def brighter(*args, **options):
        return interpolate(*args, **options).clamp(max=253) + 2

    def one_pixel_off(image, box, px):
        return pil_crop(image.roll(1, -1), box, px)

    with monkeypatch.context() as patch:
        patch.setattr(pyramid_crop, "interpolate", brighter)
        assert fidelity.share_within_one_level(paths) < 0.1
    with monkeypatch.context() as patch:
        patch.setattr(fidelity, "_pil_crop", one_pixel_off)
        assert fidelity.share_within_one_level(paths) < 0.8
