"""SS-PRL in plain PyTorch: python examples/train_on_a_folder.py photos/ backbone.pth"""

import sys

import torch
from mmpretrain.models import ResNet

from mmssprl.datasets import UnlabeledImages
from mmssprl.functional import cross_scale_loss, sinkhorn, swapped_prediction_loss
from mmssprl.models import CorrelationLearner, MultiHeadNeck, Prototypes, PyramidPreprocessor
from mmssprl.models.ssprl import crop_features
from mmssprl.pyramid import PyramidLevel, ViewLayout

layout = ViewLayout(image_px=96, levels=(PyramidLevel(2, 128, 48), PyramidLevel(3, 144, 32)))
images = UnlabeledImages(sys.argv[1], pipeline=[{"type": "PyramidCrop", "layout": layout}])
loader = torch.utils.data.DataLoader(images, batch_size=32, shuffle=True, drop_last=True)
augment = PyramidPreprocessor(layout, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05)
backbone, neck = ResNet(depth=18), MultiHeadNeck(layout, in_channels=512, hid_channels=512)
maps = [Prototypes(128, 30) for _ in range(3)] + [CorrelationLearner(30, 30) for _ in range(2)]
optimizer = torch.optim.AdamW(torch.nn.ModuleList([backbone, neck, *maps]).parameters(), lr=5e-4)
for epoch in range(10):
    images.set_epoch(epoch, seed=0)
    for batch in loader:
        for linear in maps:
            linear.normalize_()
        features = [crop_features(backbone, c) for c in augment(batch, training=True)["inputs"]]
        losses, codes = [], []
        for s, z in enumerate(neck(layout.split(features))):  # (2, patches, B, 128) of scale s
            scores = maps[s](z)
            codes.append(torch.stack([sinkhorn(view) for view in scores.flatten(1, 2)]))
            losses.append(swapped_prediction_loss(scores.flatten(1, 2), codes[s], temperature=0.1))
            if s > 0:  # Eq. 3: the mean prediction of the patches predicts the image's code
                p = maps[s + 2]((scores / 0.1).softmax(-1).mean(1))
                losses.append(cross_scale_loss(p, codes[0], temperature=0.1, all_pairs=False))
        optimizer.zero_grad()
        (losses[0] + 0.25 * sum(losses[1:])).backward()  # Eq. 4
        optimizer.step()
    print(f"epoch {epoch + 1}:", *(f"{loss.item():.2f}" for loss in losses))
torch.save(backbone.state_dict(), sys.argv[2])
