"""Linear probe: mAP of a linear classifier on a backbone's features, on unseen images.

Legend: N images and K classes of a split, C features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from mmengine.config import Config
from torch import Tensor

from ..config.hooks import is_named
from ..datasets.labels import LabelledData
from ..errors import UserError, called, text_of
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import FeatureOptions, Weights, joined
from ..system.environment import choose_device
from ..weights import RANDOM, SUPERVISED, find_config, refuse_random, without_words
from .data import LabelledSplit, ProbeData, extract_files, find_probe_data, read_masks
from .dense import DenseProbeResult, score_maps
from .intervals import Scored, half_widths
from .linear_classifier import NUM_FOLDS, fit_grouped_probe
from .measures import by_class, mean_average_precision


def extract_split(
    model: FeatureBackbone, split: LabelledSplit, options: FeatureOptions
) -> tuple[Tensor, LabelledSplit]:
    """Return features (N, C) of the centre crops of a split, and its images that can be read."""
    crops = Crops(model.image_px)
    found = joined(extract_files(model, split.name, split.paths, crops, options))
    return found.features[:, 0], split.take(found.indices, split.name)


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """Scores of a linear classifier on the features of some weights.

    Attributes:
        mAP: Mean average precision on the test images, in [0, 1].
        chance_mAP: mAP of a constant score.
        accuracy: Accuracy on the test images; None unless each image has one class.
        chance_accuracy: Accuracy of the most frequent class; None likewise.
        per_class: Average precision of each class; None without a test image.
        strength: Penalty of the classifier.
        held_out_mAP: mAP on held-out training images, by penalty.
        weights, config: The files; '' for a loaded backbone.
        data, layout: The labelled folder, and the layout of its labels.
        num_train, num_test: Images that the classifier was fitted and tested on.
        num_classes, num_features, image_px, seed: As measured.
        interval: Half a 95 % interval of the difference in mAP to the best of several weights, by a
            paired bootstrap over the test images; None of the best.
        dense: Scores of the feature map, if the images have masks.
    """

    mAP: float  # noqa: N815
    chance_mAP: float  # noqa: N815
    accuracy: float | None
    chance_accuracy: float | None
    per_class: dict[str, float | None]
    strength: float
    held_out_mAP: dict[str, float]  # noqa: N815
    data: str
    layout: str
    num_train: int
    num_test: int
    num_classes: int
    num_features: int
    image_px: int
    seed: int
    weights: str = ""
    config: str = ""
    interval: float | None = None
    dense: DenseProbeResult | None = None


def probe(
    weights: Weights,
    data: str | Path,
    *,
    config: str | Path | None = None,
    image_px: int | None = None,
    batch_size: int = 64,
    device: str | torch.device = "auto",
    seed: int = 0,
    progress: bool = True,
) -> ProbeResult:
    """Extract features once, fit a linear classifier, and measure mAP.

    If the images have masks (label images, or masks of COCO's or YOLO's objects), the feature map
    is scored, too, by the mIoU of its pixels.

    Scores are not comparable to the paper's protocol (SGD on augmented images), which is a training
    config.

    Args:
        weights: As for ``load_backbone``, or its result.
        data: Labelled folder as for ``finetune --task classify``; its validation images are the
            test images.
        config, image_px, batch_size, device: As for ``embed``.
        seed: Seed of random weights, of the folds, and of the draw of test images if the folder has
            no splits.
        progress: Whether to print the steps, and to draw progress bars at a terminal.

    Raises:
        ValueError: Arguments, weights, config or data do not fit.
        FileNotFoundError: A file or folder does not exist.
    """
    options = FeatureOptions(config, image_px, batch_size, device, seed, progress)
    return probe_all([weights], data, options)[0]


def probe_all(
    weights: Sequence[Weights], data: str | Path, options: FeatureOptions
) -> list[ProbeResult]:
    """Score several weights, after all are loaded.

    Without ``image_px`` all take the image size of the first.
    """
    names = ["" if isinstance(each, FeatureBackbone) else str(each) for each in weights]
    config = None if options.config is None else str(options.config)
    configs = _find_configs([*filter(None, names)], config)
    found = find_probe_data(data, seed=options.seed)
    masks = read_masks(data, found, seed=options.seed, log=options.log)
    options.tell(found.labelled.describe())

    models = [
        replace(options, config=configs.get(name, options.config)).load(each)
        for name, each in zip(names, weights, strict=True)
    ]
    if len({model.image_px for model in models}) > 1:
        options.tell(f"all at {models[0].image_px} px, the size of the first; image_px changes it")
        for model in models:
            model.image_px = models[0].image_px

    results: list[ProbeResult] = []
    scored: list[Scored] = []
    for i, (name, model) in enumerate(zip(names, models, strict=True), 1):
        own = f"{name} ({i} of {len(names)}): " if len(names) > 1 else ""
        size = f"{model.image_px} px on {choose_device(options.device)}"
        options.tell(f"{own}features of {found.labelled.root} at {size}")
        config = str(configs[name].filename or "") if name else ""
        with called(name or "the network", field="the network"):
            result, of_images = score_features(found, masks, model, options)
        results.append(replace(result, weights=name, config=config))
        scored.append(of_images)

    best = max(range(len(results)), key=lambda i: results[i].mAP)
    widths = half_widths(scored[:best] + scored[best + 1 :], scored[best])
    widths.insert(best, None)
    return [replace(each, interval=width) for each, width in zip(results, widths, strict=True)]


def best_weights(results: Sequence[ProbeResult]) -> tuple[str | None, str]:
    """Return the weights of the highest mAP, and in words which others may be as good, '' if none.

    Others may be as good if the lead is within its interval or has no interval. None is returned
    if these or the best are random weights: then no weights are better than random.
    """
    best = max(results, key=lambda result: result.mAP)
    others = [each for each in results if each is not best]
    unsure = [each.weights for each in others if each.interval is None]
    # A lead is not greater than an interval of NaN, either.
    level = [
        each.weights
        for each in others
        if each.interval is not None and not best.mAP - each.mAP > each.interval
    ]

    words = [f"level with {best.weights}: {', '.join(level)}"] if level else []
    if unsure:
        words.append(f"no interval for the lead of {best.weights} over {', '.join(unsure)}")
    is_no_better = bool(words) and RANDOM in (best.weights, *level, *unsure)
    return None if is_no_better else best.weights, "; ".join(words)


@called("weights", field="WEIGHTS")
@called("config (--config)", field="--config")
def _find_configs(weights: list[str], config: str | None) -> dict[str, Config]:
    """Return the config of each file; 'random' and 'supervised' take the first file's config."""
    files = without_words(weights)
    found = {name: find_config(name, config) for name in files}
    if len(files) == len(weights):
        return found

    # Without a file, 'supervised' has its own config, for 'random' too.
    word = SUPERVISED if SUPERVISED in weights else RANDOM
    refuse_random(weights)
    own = found[files[0]] if files else find_config(word, config)
    usual = own
    if files and config is None and is_named(own.model.backbone, "ResNet"):
        # The same depth, image size and normalisation, at torchvision's width.
        usual = Config(own.to_dict(), filename=own.filename)
        usual.model.backbone = {"type": "ResNet", "depth": own.model.backbone.depth}
    return {**found, RANDOM: own, SUPERVISED: usual}


def score_features(
    found: ProbeData,
    masks: LabelledData | None,
    model: FeatureBackbone,
    options: FeatureOptions,
    *,
    num_folds: int = NUM_FOLDS,
) -> tuple[ProbeResult, Scored]:
    """Fit a linear classifier on features, and one on feature maps if there are masks.

    Returns:
        The result, without the names of weights and config, and the scores of each test image.
    """
    where = choose_device(options.device)
    train_x, train = extract_split(model, found.train, options)
    test_x, test = extract_split(model, found.test, options)
    options.tell(f"linear classifier on {train_x.shape[1]} features")
    classifier = fit_grouped_probe(
        train_x.to(where),
        train.labels.to(where),
        groups=train.groups,
        num_folds=num_folds,
        seed=options.seed,
    )

    truth = test.labels
    logits = classifier(test_x.to(where))
    score, areas = mean_average_precision(logits, truth)
    chance, _ = mean_average_precision(torch.zeros_like(truth, dtype=torch.float32), truth)
    accuracy = chance_accuracy = None
    if found.labelled.is_single_label:
        accuracy, chance_accuracy = _accuracies(logits, truth, train.labels)

    result = ProbeResult(
        mAP=score,
        chance_mAP=chance,
        accuracy=accuracy,
        chance_accuracy=chance_accuracy,
        per_class=by_class(found.classes, areas),
        strength=classifier.strength,
        held_out_mAP={str(key): value for key, value in classifier.held_out.items()},
        data=str(found.labelled.root),
        layout=found.labelled.layout,
        num_train=len(train_x),
        num_test=len(test_x),
        num_classes=len(found.classes),
        num_features=train_x.shape[1],
        image_px=model.image_px,
        seed=options.seed,
        dense=_score_masks(masks, model, options),
    )
    return result, Scored(logits.detach().cpu(), truth)


def _accuracies(logits: Tensor, truth: Tensor, train_labels: Tensor) -> tuple[float, float]:
    """Return the accuracy of logits (N, K), and of always choosing the most frequent class."""
    classes = truth.argmax(dim=1)
    most_frequent = train_labels.sum(dim=0).argmax()
    accuracy = (logits.argmax(dim=1).cpu() == classes).float().mean().item()
    return accuracy, (classes == most_frequent).float().mean().item()


def _score_masks(
    masks: LabelledData | None, model: FeatureBackbone, options: FeatureOptions
) -> DenseProbeResult | None:
    """Score the feature map; None without masks, or if ``options.log`` said why not."""
    if masks is None:
        return None
    try:
        return score_maps(masks, model, options)
    except UserError as error:  # such as masks that label too little: mAP needs none
        options.log(f"no mIoU: {text_of(error)}")
        return None
