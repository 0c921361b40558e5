"""Weights in torchvision: python examples/find_similar_images.py backbone.pth photos/ photo.jpg"""

import sys
from pathlib import Path

import torch
from PIL import Image, ImageOps
from torchvision.models import resnet18
from torchvision.transforms import v2

weights, folder, query = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
model = resnet18()
model.fc = torch.nn.Identity()  # the classifier, which the backbone's weights do not have
model.load_state_dict(torch.load(weights, weights_only=True))
model.eval()
prepare = v2.Compose(
    [
        v2.Resize(256),
        v2.CenterCrop(224),
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


@torch.inference_mode()
def feature_of(path: Path) -> torch.Tensor:
    """Return the image's feature (512,), scaled to unit norm."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")  # turned as in training
    return torch.nn.functional.normalize(model(prepare(image)[None])[0], dim=0)


sought = feature_of(query)
suffixes = (".jpg", ".jpeg", ".png")
files = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in suffixes]
found = [(float(feature_of(path) @ sought), path) for path in files if path != query]
for cosine, path in sorted(found, reverse=True)[:5]:
    print(f"{cosine:.3f}  {path}")
