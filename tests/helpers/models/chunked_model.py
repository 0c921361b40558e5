"""A small model that processes its batch in chunks, and inputs of its steps."""

import torch
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch

from mmssprl.registry import MODELS

BATCH = 4
CROPS = (2, 9)  # two of 64 px; one small view and eight patches of 32 px


def make_model(num_chunks=1, **head):
    torch.manual_seed(0)
    head = {"queue_length": 8, "patch_queue_length": 32, **head}
    return MODELS.build({**model_cfg({**BACKBONE}, 8, **head), "num_chunks": num_chunks})


def crops_of(step=0, batch=BATCH):
    return make_model().data_preprocessor(packed_batch(LAYOUT, batch, seed=step))["inputs"]


def relative_error(got, expected):
    """Error of all gradients together, because single ones may be sums that nearly cancel."""
    difference = torch.cat([(got[name] - expected[name]).flatten() for name in expected])
    return difference.norm() / torch.cat([grad.flatten() for grad in expected.values()]).norm()
