"""Files that hold one ResNet in the layouts of many projects, and where in them it is.

``t`` is its trunk, ``w`` the whole of it with a classifier. ``o`` and ``x`` are the same names with
other values, which must not be taken.
"""

from collections import OrderedDict

import torch
from helpers.weights import published_checkpoints as published
from helpers.weights.published_checkpoints import mlp, other, queue, under

PLACES = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}


def sequential(trunk):
    """Of ``nn.Sequential(*list(resnet.children())[:-1])``, as in lightly's examples."""
    parts = ((*key.partition("."), value) for key, value in trunk.items())
    return {f"{PLACES[part]}{dot}{rest}": value for part, dot, rest, value in parts}


def inside(wrapper, state):
    """Of a network whose first stage alone is wrapped."""
    return {key.replace("layer1.", f"layer1.{wrapper}."): v for key, v in state.items()}


def parameters(state):
    return {key: v for key, v in state.items() if "running" not in key and "batches" not in key}


def arrays(state):
    return OrderedDict((key, value.numpy()) for key, value in state.items())


STEPS = {"n_averaged": torch.tensor(3)}
ADAM = {"state": {0: {"exp_avg": torch.ones(64, 3, 7, 7)}}, "param_groups": [{"lr": 0.1}]}
HEAD = under("head.", mlp(64, 8, 4))
BLOCKS = "trunk._feature_blocks."
BASE, LOSS = "classy_state_dict.base_model.model.", "classy_state_dict.loss."
SWA = "callbacks.StochasticWeightAveraging.average_model_state."
PLAIN = {
    # What stands before the names in a file that is one dict -> the prefix that is found.
    **{f"{word}.": f"{word}." for word in ("module", "model", "net", "backbone", "encoder")},
    "_orig_mod.": "",
    **dict.fromkeys(("module._orig_mod.", "_orig_mod.module."), "module."),
    **{"model._orig_mod.backbone.": "model.backbone.", "student.": "student."},
}
WRAPPED = {
    f"under {prefix}": ((lambda t, o, w, x, prefix=prefix: under(prefix, w)), found)
    for prefix, found in PLAIN.items()
}
OF_PROJECTS = {
    project.__name__: ((lambda t, o, w, x, project=project: project(t)), prefix, *others)
    for project, (_, prefix, *others) in published.LAYOUTS.items()
}
LAYOUTS = {
    # Its content, the prefix of the backbone, and those of its copies.
    **OF_PROJECTS,
    **WRAPPED,
    "names": (lambda t, o, w, x: t, ""),
    "arrays": (lambda t, o, w, x: arrays(w), ""),
    "HF": (lambda t, o, w, x: {"model": w, "optimizer": ADAM}, "model."),
    "state": (lambda t, o, w, x: {"epoch": 1, "optimizer": ADAM, "model_state": w}, "model_state."),
    "model_state_dict": (lambda t, o, w, x: {"model_state_dict": w}, "model_state_dict."),
    "three deep": (lambda t, o, w, x: {"state": {"net": {"model": w}}}, "state.net.model."),
    "mmpretrain": (
        lambda t, o, w, x: {"meta": {}, "state_dict": {**under("backbone.", t), **HEAD}},
        "state_dict.backbone.",
    ),
    "Lightning": (lambda t, o, w, x: {"state_dict": under("model.", w)}, "state_dict.model."),
    "Lightning module": (
        lambda t, o, w, x: {"state_dict": under("model.backbone.", w)},
        "state_dict.model.backbone.",
    ),
    "moments by name": (lambda t, o, w, x: {"model": w, "optimizer": {"exp_avg": x}}, "model."),
    "queues": (
        lambda t, o, w, x: {
            "state_dict": {**under("module.", t), **queue(), "prototypes.weight": torch.ones(3, 4)}
        },
        "state_dict.module.",
    ),
    "wrapped stage": (lambda t, o, w, x: {"model": inside("_orig_mod", w)}, "model."),
    "checkpointed stage": (
        lambda t, o, w, x: under("module.", inside("_checkpoint_wrapped_module", w)),
        "module.",
    ),
    # Averages of a training.
    "timm model_ema": (lambda t, o, w, x: {"model": x, "model_ema": w}, "model_ema.", "model."),
    "ema": (lambda t, o, w, x: {"model": x, "ema": under("module.", w)}, "ema.module.", "model."),
    "modelEMA": (lambda t, o, w, x: {"model": x, "modelEMA": w}, "modelEMA.", "model."),
    "ema wrapped": (
        lambda t, o, w, x: {"model": x, "ema": inside("_orig_mod", w)},
        *("ema.", "model."),
    ),
    "ema nested": (
        lambda t, o, w, x: {"state": {"model": x, "model_ema": under("module.", w)}},
        *("state.model_ema.module.", "state.model."),
    ),
    "ema beside the backbone": (
        lambda t, o, w, x: {"state_dict": {**under("net.", o), **under("ema_net.module.", t)}},
        *("state_dict.ema_net.module.", "state_dict.net."),
    ),
    "ema_state_dict": (
        lambda t, o, w, x: {"state_dict": x, "ema_state_dict": w},
        *("ema_state_dict.", "state_dict."),
    ),
    "mmengine's, swapped": (
        lambda t, o, w, x: {
            "state_dict": under("backbone.", t),
            "ema_state_dict": {"steps": torch.tensor(3), **under("module.backbone.", o)},
        },
        *("state_dict.backbone.", "ema_state_dict.module.backbone."),
    ),
    "ema of parameters alone": (
        lambda t, o, w, x: {"model": w, "ema": parameters(x)},
        *("model.", "ema."),
    ),
    "ema without counters": (
        lambda t, o, w, x: {"model": x, "ema": {k: v for k, v in w.items() if "batches" not in k}},
        *("ema.", "model."),
    ),
    "AveragedModel": (lambda t, o, w, x: {**STEPS, **under("module.", w)}, "module."),
    "averaged_model": (
        lambda t, o, w, x: {**under("model.", x), **under("averaged_model.module.", w), **STEPS},
        *("averaged_model.module.", "model."),
    ),
    "swa": (
        lambda t, o, w, x: {"model": x, "swa_model": {**STEPS, **under("module.", w)}},
        *("swa_model.module.", "model."),
    ),
    "Lightning, averaged": (
        lambda t, o, w, x: {"state_dict": w, "current_model_state": x, "averaging_state": STEPS},
        *("state_dict.", "current_model_state."),
    ),
    "Lightning SWA": (
        lambda t, o, w, x: {
            "state_dict": under("net.", x),
            "callbacks": {"StochasticWeightAveraging": {"average_model_state": under("net.", w)}},
        },
        *(f"{SWA}net.", "state_dict.net."),
    ),
    "student and teacher": (
        lambda t, o, w, x: {**under("student.", o), **under("teacher.", t)},
        *("teacher.", "student."),
    ),
    # Methods of self-supervision.
    "lightly": (
        lambda t, o, w, x: {"state_dict": {**under("backbone.", sequential(t)), **HEAD}},
        "state_dict.backbone.",
    ),
    "Sequential": (lambda t, o, w, x: sequential(t), ""),
    "lightly MoCo": (
        lambda t, o, w, x: {
            **under("backbone.", sequential(t)),
            **under("backbone_momentum.", sequential(o)),
        },
        *("backbone.", "backbone_momentum."),
    ),
    "lightly DINO": (
        lambda t, o, w, x: {
            **under("student_backbone.", sequential(o)),
            **under("teacher_backbone.", sequential(t)),
        },
        *("teacher_backbone.", "student_backbone."),
    ),
    "MoCo v3": (
        lambda t, o, w, x: {
            "optimizer": ADAM,
            "state_dict": {
                **under("module.base_encoder.", {**t, **under("fc.", mlp(64, 8, 4))}),
                **under("module.momentum_encoder.", o),
            },
        },
        *("state_dict.module.base_encoder.", "state_dict.module.momentum_encoder."),
    ),
    "SimSiam": (
        lambda t, o, w, x: {"state_dict": under("module.encoder.", {**t, **HEAD})},
        "state_dict.module.encoder.",
    ),
    "BYOL": (
        lambda t, o, w, x: {
            **under("online_network.encoder.", t),
            **under("target_network.encoder.", o),
        },
        *("online_network.encoder.", "target_network.encoder."),
    ),
    "query and key": (
        lambda t, o, w, x: {"query_encoder": w, "key_encoder": x},
        *("query_encoder.", "key_encoder."),
    ),
    "solo-learn": (
        lambda t, o, w, x: {"state_dict": {**under("backbone.", t), **under("momentum_net.", o)}},
        *("state_dict.backbone.", "state_dict.momentum_net."),
    ),
    "VICReg": (
        lambda t, o, w, x: {"model": {**under("module.backbone.", t), **under("module.", HEAD)}},
        "model.module.backbone.",
    ),
    "VISSL": (
        lambda t, o, w, x: {
            "classy_state_dict": {
                "base_model": {"model": {"trunk": under("_feature_blocks.", t), "heads": HEAD}},
                "optimizer": ADAM,
            }
        },
        f"{BASE}{BLOCKS}",
    ),
    "VISSL DINO": (
        lambda t, o, w, x: {
            "classy_state_dict": {
                "base_model": {"model": {"trunk": under("_feature_blocks.", o)}},
                "loss": under(f"momentum_teacher.{BLOCKS}", t),
            }
        },
        *(f"{LOSS}momentum_teacher.{BLOCKS}", f"{BASE}{BLOCKS}"),
    ),
    "the same twice": (lambda t, o, w, x: {"model": w, "net": dict(w)}, "model.", "net."),
}

WITHOUT_COUNTERS = ("extracted", "detectron2", "detectron2_fpn", "ema without counters")


def write_layout(name, trunk, folder):
    """Write a file; a published layout has the name that its project gives."""
    whole = {**trunk, "fc.weight": torch.randn(3, 64), "fc.bias": torch.zeros(3)}
    content = LAYOUTS[name][0](trunk, other(trunk), whole, other(whole))
    names = {project.__name__: file for project, (file, *_) in published.LAYOUTS.items()}
    return published.save(content, folder / names.get(name, "w.pth"))
