"""SS-PRL (WACV 2023) in one file of plain PyTorch, to be read.

    python examples/ssprl_in_one_file.py photos/ backbone.pth

It has the paper's views, model, assignment and losses (Eq. 1 to 4), without queues. The package
computes the same losses and gradients, which a test compares.

Legend: B images, M patches of a view, D size of an embedding, K_s prototypes of scale s. Scale 0
is the whole image. The tensors of a scale are (2, M, B, ...), the two views of the image in front.
"""

import sys
from pathlib import Path

import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet18
from torchvision.transforms import v2

IMAGE_PX = 96
LEVELS = ((2, 128, 48), (3, 144, 32))  # cells a side, pixels of the crop, pixels of a patch
NUM_PROTOTYPES = (30, 30, 30)  # K_0, K_1, K_2
TAU, EPSILON, NUM_ITERS = 0.1, 0.05, 3
ALPHA = BETA = 0.25  # weights of the patches in Eq. 2 and Eq. 3
SUFFIXES = {".jpg", ".jpeg", ".png"}
EPOCHS, BATCH_SIZE, LR = 10, 32, 5e-4


class PyramidViews(torch.utils.data.Dataset):
    """Both pyramids of views of each image below a folder: per scale (2, M, 3, px, px)."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in SUFFIXES)
        self.crop_image = v2.RandomResizedCrop(IMAGE_PX, scale=(0.14, 1.0))
        self.crop_level = [v2.RandomResizedCrop(px, scale=(0.6, 1.0)) for _, px, _ in LEVELS]
        self.augment = v2.Compose(
            [
                v2.RandomHorizontalFlip(),
                v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
                v2.RandomGrayscale(p=0.2),
                v2.RandomApply([v2.GaussianBlur(9, sigma=(0.1, 2.0))], p=0.5),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[Tensor]:
        image = ImageOps.exif_transpose(Image.open(self.paths[index]))
        image = v2.functional.pil_to_tensor(image.convert("RGB"))
        scales = [[[self.crop_image(image)], [self.crop_image(image)]]]
        for (grid, px, patch_px), crop in zip(LEVELS, self.crop_level, strict=True):
            resized = crop(image)  # one crop for both views, so that their cells show one place
            cells = [c for row in resized.split(px // grid, 1) for c in row.split(px // grid, 2)]
            cells = [cells[i] for i in torch.randperm(grid * grid)]
            random_patch = v2.RandomCrop(patch_px)  # each view cuts its own out of a cell
            scales.append([[random_patch(cell) for cell in cells] for _ in range(2)])
        return [
            torch.stack([torch.stack([self.augment(crop) for crop in view]) for view in views])
            for views in scales
        ]


class SSPRL(nn.Module):
    """Backbone, a projection head and prototypes per scale, correlation learners g_s."""

    def __init__(self, dim: int = 128, hidden: int = 512) -> None:
        super().__init__()
        self.backbone, width = resnet18(), 512
        self.backbone.fc = nn.Identity()
        self.heads = nn.ModuleList(projection_head(width, hidden, dim) for _ in NUM_PROTOTYPES)
        self.prototypes = nn.ParameterList(torch.randn(k, dim) for k in NUM_PROTOTYPES)
        k_0, *others = NUM_PROTOTYPES
        self.correlation = nn.ParameterList(torch.randn(k_0, k) for k in others)

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Return the weighted terms of the loss of views (2, M, B, 3, px, px) per scale."""
        with torch.no_grad():  # prototypes and learners are unit vectors
            for weight in (*self.prototypes, *self.correlation):
                weight.copy_(F.normalize(weight))
        scores = []
        for crops, head, prototypes in zip(views, self.heads, self.prototypes, strict=True):
            features = head(self.backbone(crops.flatten(0, 2)))  # (2 M B, D)
            embeddings = F.normalize(features).unflatten(0, crops.shape[:3])
            scores.append(embeddings @ prototypes.T)  # (2, M, B, K_s)
        return losses(scores, list(self.correlation))


def projection_head(width: int, hidden: int, dim: int) -> nn.Module:
    """Return Linear, BatchNorm, ReLU, Linear."""
    return nn.Sequential(
        nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, dim)
    )


def losses(scores: list[Tensor], correlation: list[Tensor]) -> dict[str, Tensor]:
    """Return the terms of Eq. 4: ``scores[s]`` (2, M, B, K_s), ``correlation`` (K_0, K_s)."""
    terms = {}
    image_codes = [sinkhorn(view) for view in scores[0].flatten(1, 2)]
    for s, of_scale in enumerate(scores):
        rows = of_scale.flatten(1, 2)  # (2, M B, K_s)
        codes = [sinkhorn(view) for view in rows] if s else image_codes
        # Eq. 2: each view of a patch predicts the code of the other one.
        swapped = cross_entropy(codes[1], rows[0]) + cross_entropy(codes[0], rows[1])
        terms[f"loss_pyramid_s{s}"] = (ALPHA if s else 1.0) * swapped / 2
        if s > 0:
            # Eq. 3: the mean prediction of an image's patches predicts the code of the image.
            mean = F.normalize((of_scale / TAU).softmax(-1).mean(1), dim=-1)  # (2, B, K_s)
            image_scores = mean @ correlation[s - 1].T  # (2, B, K_0)
            both = [cross_entropy(image_codes[v], image_scores[v]) for v in (0, 1)]
            terms[f"loss_cross_s{s}"] = BETA * sum(both) / 2
    return terms


def cross_entropy(codes: Tensor, scores: Tensor) -> Tensor:
    """CE(q, p) with p = softmax(scores / tau) of Eq. 1, the mean over rows (N, K)."""
    return -(codes * (scores / TAU).log_softmax(-1)).sum(-1).mean()


@torch.no_grad()
def sinkhorn(scores: Tensor) -> Tensor:
    """Balanced soft codes (N, K) of scores (N, K): every prototype is used equally often."""
    log_codes = scores / EPSILON
    for _ in range(NUM_ITERS):
        log_codes = log_codes - log_codes.logsumexp(0, keepdim=True)  # prototypes
        log_codes = log_codes - log_codes.logsumexp(1, keepdim=True)  # rows
    return log_codes.exp()


def main(folder: str, out: str) -> None:
    """Train on the images below a folder, and write the backbone's weights."""
    images = PyramidViews(folder)
    loader = torch.utils.data.DataLoader(images, BATCH_SIZE, shuffle=True, drop_last=True)
    model = SSPRL()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    for epoch in range(EPOCHS):
        for batch in loader:  # per scale (B, 2, M, 3, px, px)
            terms = model([views.permute(1, 2, 0, 3, 4, 5) for views in batch])
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
        print(f"epoch {epoch + 1}:", *(f"{term.item():.3f}" for term in terms.values()))
    torch.save(model.backbone.state_dict(), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
