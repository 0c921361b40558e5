"""SS-PRL in plain PyTorch: python examples/train_on_a_folder.py photos/ backbone.pth"""

import sys

import torch
from mmpretrain.models import ResNet

from mmssprl import models
from mmssprl.datasets import UnlabeledImages
from mmssprl.functional import cross_scale_loss, sinkhorn, swapped_prediction_loss
from mmssprl.pyramid import PyramidLevel, ViewLayout

layout = ViewLayout(image_px=96, levels=(PyramidLevel(2, 128, 48), PyramidLevel(3, 144, 32)))
images = UnlabeledImages(sys.argv[1], pipeline=[{"type": "PyramidCrop", "layout": layout}])
loader = torch.utils.data.DataLoader(images, batch_size=32, shuffle=True)
augment = models.PyramidPreprocessor(layout, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05)
backbone, neck = ResNet(depth=18), models.MultiHeadNeck(layout, in_channels=512, hid_channels=512)
linear = [models.Prototypes(128, 30) for _ in range(3)]  # C_0, C_1, C_2
linear += [models.CorrelationLearner(30, 30) for _ in range(2)]  # g_1, g_2
optimizer = torch.optim.AdamW(torch.nn.ModuleList([backbone, neck, *linear]).parameters(), lr=5e-4)
for epoch in range(10):
    images.set_epoch(epoch, seed=0)  # each epoch draws its own crops
    for batch in loader:
        for unit_rows in linear:
            unit_rows.normalize_()
        features = [models.crop_features(backbone, c) for c in augment(batch, True)["inputs"]]
        losses, codes = [], []
        for s, z in enumerate(neck(layout.split(features))):  # of scale s (2, patches, B, 128)
            scores = linear[s](z)  # (2, patches, B, 30)
            codes.append(torch.stack([sinkhorn(view) for view in scores.flatten(1, 2)]))
            losses.append(swapped_prediction_loss(scores.flatten(1, 2), codes[s], temperature=0.1))
            if s > 0:  # Eq. 3: the mean prediction of the patches predicts the image's code
                mean = linear[2 + s]((scores / 0.1).softmax(-1).mean(1))  # (2, B, 30)
                losses.append(cross_scale_loss(mean, codes[0], temperature=0.1, all_pairs=False))
        optimizer.zero_grad()
        (losses[0] + 0.25 * sum(losses[1:])).backward()  # Eq. 4
        optimizer.step()
    print(f"epoch {epoch + 1}:", *(f"{loss.item():.2f}" for loss in losses))
torch.save(backbone.state_dict(), sys.argv[2])
