"""Continue from trained weights without losing their features."""

from dataclasses import replace

from torch import nn

from ..config.hooks import add_hook
from ..console.wording import counted
from ..engine.adapted_backbone import take_style
from ..errors import UserValueError
from ..weights import (
    OWN,
    Source,
    check_fit,
    start_state,
    weights_file,
    whole_path,
    with_network,
)
from ..weights.description import find_description, read_description
from .backbones import name_of
from .methods import CONTINUED_GAIN, UNANCHORED_LOSS
from .options import PretrainOptions
from .recipe import Recipe, RecipeRow

MOST_HEADS_FIRST = 10  # epochs in which only the heads learn; otherwise a tenth of all
BACKBONE_SHARE = 0.1  # learning rate of the backbone as a fraction of the heads'
ANCHOR_CHANNELS = 256  # components of the start's maps that are kept, as in ``distill``


def named_weights(asked: PretrainOptions) -> PretrainOptions:
    """Split weights that name their network into backbone and weights, or take our file's backbone.

    timm/NAME[:FILE] names a network, and so does package.module:function, with its own weights.
    """
    source = Source.of(asked.weights)
    if source.network:
        if asked.backbone not in (None, source.network):
            raise UserValueError(
                f"weights {asked.weights} are of the backbone {source.network}, but backbone is "
                f"{asked.backbone}; leave backbone out."
            )
        return replace(asked, backbone=source.network, weights=source.without_network)

    if not source.file or asked.backbone is not None:
        return asked

    description = find_description(weights_file(source.file))
    if description is None:
        return asked

    own = read_description(description).model.backbone.to_dict()
    backbone = name_of(own)
    if backbone is None:
        raise UserValueError(
            f"weights {source.file} are of a {own.pop('type')} that pretrain cannot build, {own}; "
            "train it from its config by tools/train.py."
        )
    return replace(asked, backbone=backbone)


def is_anchored(asked: PretrainOptions) -> bool:
    """Whether the teacher that is asked for is the network that the training starts from."""
    if asked.teacher is None or Source.of(asked.weights).is_random:
        return False
    if Source.of(asked.weights).is_own:
        return str(asked.teacher) in (OWN, asked.backbone)
    teacher = Source.of(asked.teacher)
    is_same = teacher.network == asked.backbone
    weights = teacher.without_network if is_same else str(asked.teacher)
    return whole_path(weights) == whole_path(str(asked.weights))


def check_weights(weights: str, backbone: nn.Module, recipe: Recipe) -> None:
    """Raise ValueError or OSError unless the weights fit the backbone."""
    name = recipe.backbone.name
    cfg = recipe.backbone.cfg
    channels = cfg.get("in_channels", 3)
    source = Source.of(weights)
    wanted = ""
    if source.is_own and "network" not in cfg:
        wanted = "for a backbone package.module:function"
    if source.is_supervised and (not recipe.backbone.has_stages or channels != 3):
        wanted = "torchvision's ResNets of 3 channels"
    if wanted:
        raise UserValueError(
            f"weights {weights!r} are {wanted}, but the backbone is {name} of {channels} channels; "
            "give a file of its weights, or another backbone."
        )

    if not source.is_own:
        own = backbone.state_dict()
        state = start_state(weights, cfg.get("depth", 50), own)
        remedy = "name their network by backbone, `convert` them, or give other weights."
        check_fit(state, own, weights=weights, owner=name, remedy=remedy)


def continue_from(recipe: Recipe, weights: str, backbone: nn.Module, *, is_rgb: bool) -> None:
    """Start from weights of the backbone, and keep what it knows.

    The heads learn first, the backbone at a lower rate, and BatchNorm keeps its statistics.
    """
    check_weights(weights, backbone, recipe)
    cfg = recipe.cfg
    take_style(cfg, weights, backbone)
    if not Source.of(weights).is_own:
        cfg.weights = whole_path(weights)
    keys = {"backbone.": {"lr_mult": BACKBONE_SHARE}}
    # mmengine lists a parameter of two names twice, which optimizers refuse.
    cfg.optim_wrapper.paramwise_cfg = {"custom_keys": keys, "bypass_duplicate": True}
    for scheduler in cfg.param_scheduler:
        if "eta_min" in scheduler:  # one value for all would raise the rate of the backbone
            scheduler["eta_min_ratio"] = scheduler.pop("eta_min") / cfg.optim_wrapper.optimizer.lr
    epochs = min(max(1, recipe.epochs // 10), MOST_HEADS_FIRST, recipe.epochs - 1)
    add_hook(cfg, "ContinuationHook", heads_first=epochs)

    teacher = recipe.asked.teacher
    can_anchor = recipe.backbone.gives_map and is_rgb and recipe.method.model_class.anchored_form
    # ``choose_recipe`` has refused other teachers than the start itself.
    anchors = not recipe.method.learns_from_teacher and (can_anchor or teacher is not None)
    why = "as asked"
    if not anchors and teacher is None:
        why += _measured_without_anchor(recipe, weights, is_rgb=is_rgb)
    recipe.rows["weights"] = RecipeRow(weights, why)
    why = "trained features change less"
    recipe.rows["backbone"] = RecipeRow(f"{BACKBONE_SHARE:g} of the rate", why)
    why = "random heads would undo the backbone's training"
    choice = f"alone for {counted(epochs, 'epoch')}" if epochs else "with the backbone"
    recipe.rows["heads"] = RecipeRow(choice, why if epochs else "there is one epoch")
    if anchors:
        _add_anchor(recipe)


def _measured_without_anchor(recipe: Recipe, weights: str, *, is_rgb: bool) -> str:
    """Return what continuing from such weights gave without a teacher, and how to add it."""
    source = Source.of(weights)
    text = ""
    if source.is_supervised or source.timm:
        text = f"; ImageNet's weights lost {UNANCHORED_LOSS} points of mAP so"
    elif source.file and find_description(weights_file(source.file)):
        text = f"; from SwAV's weights continuing added {CONTINUED_GAIN} points of mAP"
    if is_rgb and recipe.method.model_class.anchored_form:
        text += f"; --teacher {weights} also keeps what they see of each image"
    return text


def _add_anchor(recipe: Recipe) -> None:
    """Let the backbone also keep learning its start's maps, in the method's anchored form."""
    cfg = recipe.cfg
    backbone = recipe.backbone
    cfg.model.type = recipe.method.model_class.anchored_form
    cfg.model.anchor_neck = {**cfg.model.neck, "out_channels": ANCHOR_CHANNELS}
    if not backbone.gives_map:
        cfg.model.dense_weight = 0.0
    cfg.train_dataloader.dataset.pipeline = [{"type": "TeacherCrop"}]
    teacher = cfg.get("weights", backbone.cfg.get("network"))
    add_hook(cfg, "TeacherHook", teacher=with_network(teacher, backbone.name))
    why = f"ImageNet's weights lost {UNANCHORED_LOSS} points of mAP without it"
    recipe.rows["teacher"] = RecipeRow("the start itself", why)
