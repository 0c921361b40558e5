"""Figures that no rule derives, and what each follows from.

A phrase is as it is on the page, without code and the targets of links, see ``clean``. Figures
take the places of ``{}``. A phrase that is not on its page fails the test.
"""

from helpers.docs.computed import (
    ABLATIONS,
    ADDED,
    CHOICES,
    FASTEST,
    FLOPS,
    FORMS,
    GPU,
    HALF_WIDTH,
    HELD_OUT,
    HELD_OUT_PHOTOS,
    HELD_OUT_SCENES,
    LED,
    OWN,
    PENALTIES,
    PHOTOS,
    PLANNED,
    RIVALS,
    SCENES,
    UNCHANGED,
    VARIANCE,
    behind_both_draws,
    behind_swav,
    below_a_guess,
    column,
    continued,
    difference_of_pages,
    gains_between,
    held_out_gains,
    holm,
    larc_probes,
    last_loss,
    lead_of_the_chosen_rate,
    lost,
    mean_of,
    minutes,
    off_time,
    over_both_tables,
    over_twelve,
    p_values,
    paced,
    range_of,
    ratio,
    shown,
    within_time,
)

DERIVED = {
    "docs/hardware.md": {
        "{} to {} minutes of CPU time | | the same": lambda: minutes("swav-small"),
        "{} to {} minutes of CPU time | | ResNet-50": lambda: minutes("ssprl"),
    },
    "docs/troubleshooting.md": {"at {} of ln K": lambda: shown(2, last_loss())},
    "docs/results/archive.md": {
        "p = {}, corrected": lambda: shown(3, *p_values(CHOICES, ["swav-small"], UNCHANGED)),
        "over twelve {})": over_twelve,
        "at {} of ln K": lambda: shown(2, last_loss()),
        "scores {} % mAP and kNN {} %, random weights {} and {} %": larc_probes,
    },
    "docs/results/continuation/README.md": {
        "it added +{} ± {} points": lambda: continued("naive"),
        "and +{} ± {} with protection": lambda: continued("safe"),
    },
    "docs/results/distillation/README.md": {
        "in {} CPU seconds by measured paces": lambda: shown(0, paced("cells", 36)),
        "± 1.3 % in {} ([photos": lambda: shown(0, paced("swav-small", 44)),
        "components hold {} % of": lambda: shown(0, mean_of(VARIANCE, "variance", images="choose")),
        "and {} % of the variance of the other": lambda: shown(
            0, mean_of(VARIANCE, "variance", images="others")
        ),
        "is {} %. A sharper": lambda: shown(1, 100 * mean_of(PENALTIES, "chance_mIoU")),
        "protection {} points": lambda: shown(0, lost("unprotected", "start")),
        "worse: {} points": lambda: shown(0, lost("statistics", "start")),
        "{} and {} points are lost, by one": lambda: shown(
            0, lost("anchored-moving", "anchored"), lost("anchored-full-rate", "anchored")
        ),
        "30 epochs with kept maps take {} CPU seconds": lambda: shown(0, paced("cells", 30)),
        "at 64 px {} s, at 128 px": lambda: shown(0, paced("each-crop-64px", 30)),
        "it is {} s.": lambda: shown(0, paced("swav-small", 44)),
        "Its pass took {} s": lambda: shown(0, paced("cells", 0)),
        "maps take {} CPU seconds, the pass included, and": lambda: shown(0, paced("cells", 36)),
        "each crop {}. The": lambda: shown(0, paced("each-crop-64px", 17)),
        "runs took {} and {} s": lambda: shown(
            0,
            *(column(OWN, "seconds", split="test", row=row)[0] for row in FASTEST),
        ),
        "they cost {} times": lambda: shown(
            1, ratio(OWN, "seconds", "anchored", "anchored-two-views", **HELD_OUT)
        ),
        "the pass takes {} minutes": lambda: shown(0, paced("cells", 0) / 4500 * 118_000 / 60),
        "and {} hours": lambda: shown(1, paced("cells", 0) / 4500 * 1_281_167 / 3600),
        "At {} ms per image": lambda: shown(0, paced("cells", 0) / 4500 * 1000),
    },
    "docs/results/forms/README.md": {
        "against both draws together {} ± {}.": lambda: behind_both_draws(FORMS),
        "behind by {} ± {} and {} ± {}. On": lambda: [
            *behind_both_draws(FORMS),
            *behind_both_draws(FLOPS),
        ],
        "about {} s of CPU time": lambda: shown(
            0, 5 * round(mean_of(HALF_WIDTH, "seconds", epochs="6") / 5)
        ),
        "{} to {} points ahead of random": lambda: gains_between(0, FORMS, "random"),
        "surroundings (-{} points) and cells that predict too (-{} points)": lambda: held_out_gains(
            HELD_OUT_SCENES, "cells-cutout", "cells-gradient"
        ),
        "by {} and {} points on scenes": lambda: held_out_gains(HELD_OUT_SCENES, *LED),
        "by {} and {} points on photographs": lambda: held_out_gains(HELD_OUT_PHOTOS, *LED),
        "gives p = {} for each": lambda: shown(3, holm(p_values(FORMS, PLANNED, "swav-small"))[0]),
        "it is {} to {}.": lambda: shown(
            2, *sorted(holm(p_values(FORMS, PLANNED + ADDED, "swav-small"))[:3])[::2]
        ),
        "(p = {}, {} and {}, corrected": lambda: shown(
            3, *holm(p_values(FLOPS, PLANNED, "swav-small"))
        ),
        "lie between {} and {} %,": lambda: range_of(FORMS, "ssprl-cells"),
        "of SwAV between {} and {} %": lambda: range_of(FORMS, "swav-small"),
        "patches as small views {} times": lambda: shown(
            2, ratio(FORMS, "epochs", "swav-small", "ssprl-shared")
        ),
        "cells {} times,": lambda: shown(1, ratio(FORMS, "epochs", "swav-small", "ssprl-cells")),
        "sampled patches {} times": lambda: shown(
            1, ratio(FORMS, "epochs", "swav-small", "ssprl-small-sampled")
        ),
        "the same scores to {} points": lambda: shown(2, max(0.01, difference_of_pages())),
    },
    "docs/results/photos/README.md": {
        "learns: {} to {} points": lambda: gains_between(0, PHOTOS, "random"),
        "gains {} to {}.": lambda: gains_between(0, PHOTOS, "random", ["supervised"]),
        "± {} to ± {} points": lambda: gains_between(1, PHOTOS, "ssprl", ABLATIONS, index=1),
        "behind by {} ± {} at equal time, and": lambda: behind_swav("time"),
        "by {} ± {} against SwAV's 20 epochs": lambda: behind_swav("epochs"),
        "the paper's SS-PRL {} points;": lead_of_the_chosen_rate,
        "ablations took {} to {} times": lambda: shown(
            1, *sorted(ratio(PHOTOS, "seconds", each, "ssprl") for each in ABLATIONS)[::2]
        ),
        "met within {} %": within_time,
        "had {} % less time": lambda: off_time(PHOTOS, "ssprl-small"),
    },
    "docs/results/rivals/README.md": {
        "by {} to {} points": lambda: gains_between(
            0, RIVALS, "random", ["detco", "insloc", "maskco"]
        ),
    },
    "docs/results/photos_gpu/README.md": {
        "learns: {} to {} points": lambda: gains_between(0, GPU, "random"),
        "are ± {} and ± {} points": lambda: gains_between(
            0, GPU, "swav-small", ["ssprl-released", "ssprl-small-sampled"], ["epochs"], index=1
        ),
        "SS-PRL has {} times": lambda: shown(
            1, ratio(GPU, "flops", "ssprl", "swav-small", budget="epochs")
        ),
        "takes {} times": lambda: shown(
            1, ratio(GPU, "epochs", "swav-small", "ssprl", budget="time")
        ),
    },
    "docs/results/scenes/README.md": {
        "({} to {})": lambda: shown(2, *column(SCENES, "embedding_spread", collapsed="True")),
        "SS-PRL is {} to {} points ahead": lambda: gains_between(
            1, SCENES, "ssprl", ["mocov2", "mocov2-symmetric", "densecl", "byol"], ["epochs"]
        ),
        "Against SS-PRL's {} s": lambda: shown(0, mean_of(SCENES, "seconds", method="ssprl")),
        "their loss is {} to {} %": below_a_guess,
        "computes {} times": lambda: shown(
            1, ratio(SCENES, "flops", "ssprl", "byol", budget="epochs")
        ),
        "to {} times (MoCo v2)": lambda: shown(
            1, ratio(SCENES, "flops", "ssprl", "mocov2", budget="epochs")
        ),
        "both tables {}:": over_both_tables,
        "had {} % more and MoCo v2 {} % more": lambda: off_time(
            SCENES, "mocov2-symmetric", "mocov2"
        ),
        "training {} %, BYOL {} % and sampled patches {} % less": lambda: off_time(
            SCENES, "supervised", "byol", "ssprl-sampled"
        ),
    },
}
"""Phrases with ``{}`` for figures, and what computes these, by page."""
