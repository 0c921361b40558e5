from dataclasses import replace

import torch
from helpers.models.small_ssprl import BACKBONE, model_cfg, packed_batch
from reference import Reference

from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS

SHARED = {"grid": 2, "resize_px": 32, "patch_px": 16, "num_sampled": 3, "is_small_view": True}
OWN = {"grid": 3, "resize_px": 48, "patch_px": 12, "num_sampled": 2}
LAYOUT = {"image_px": 32, "num_small": 1, "small_px": 16, "levels": [SHARED, OWN]}


def test_split_appends_them_behind_the_views_of_the_image():
    layout = ViewLayout.build(LAYOUT)
    plain = replace(layout, levels=[replace(e, is_small_view=False) for e in layout.levels])
    assert (layout.groups, layout.num_crops) == (plain.groups, plain.num_crops)
    assert (layout.num_image_views, plain.num_image_views) == (2 + 1 + 6, 3)
    counts = [group.num_crops for group in layout.groups]
    packed = torch.arange(sum(counts))[:, None].split(counts)
    scales = layout.split(packed)
    # Crops 0 and 1 are the image's, 2 is the small view, 3 to 8 are patches, view by view.
    assert scales[0].flatten().tolist() == [*range(9)]
    assert scales[1][..., 0].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert scales[2][..., 0].tolist() == [[9, 10], [11, 12]]
    image, *patches = plain.split(packed)
    assert image.tolist() == [[[0]], [[1]], [[2]]]
    assert all(map(torch.equal, scales[1:], patches))


def test_terms_are_those_of_the_equations_and_each_patch_predicts_both_image_codes():
    torch.manual_seed(0)
    model = MODELS.build({**model_cfg(dict(BACKBONE), 8), "layout": LAYOUT})
    seen = []
    model.neck.register_forward_hook(lambda module, features, z: seen.append((features[0], z)))
    data = model.data_preprocessor(packed_batch(LAYOUT, batch=3), training=True)
    losses = model(**data, mode="loss")
    ((features, embeddings),) = seen
    assert torch.equal(features[0][3:, 0], features[1].flatten(0, 1))
    parts = model.head.prototypes, model.head.correlation
    weights = [[each.weight.detach().double() for each in part] for part in parts]
    settings = {"tau": 0.1, "epsilon": 0.05, "num_iters": 3, "variant": "paper"}
    reference = Reference(*weights, **settings)
    z = [each.detach().double() for each in embeddings]
    assert z[0].shape == (9, 1, 3, 8)
    for s, alpha in enumerate((1, 0.25, 0.25)):
        expected = alpha * reference.pyramid_term(z[s], s, None)
        torch.testing.assert_close(losses[f"loss_pyramid_s{s}"].double(), expected)
        if s:
            expected = alpha * reference.cross_term(z, s, None)
            torch.testing.assert_close(losses[f"loss_cross_s{s}"].double(), expected)
