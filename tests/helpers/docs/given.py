"""Figures beside results that follow from no CSV file, with the reason.

A phrase is as it is on the page, without code and the targets of links, see ``clean``. A phrase
that is not on its page fails the test.
"""

CHECKED = "checked by tests/docs/test_measured_numbers.py"
GIVEN = {
    "README.md": {"about 1.1 hours": CHECKED, "4.3 for 100,000": CHECKED},
    "docs/hardware.md": {
        "29 minutes of CPU time for 10 epochs, 1.4 GB": "the forecast of a run that is not kept",
        "5 minutes without the installation": "the last line of demo's table.md",
    },
    "docs/photographs.md": {"a rate of at most 0.001": "a number of the recipe"},
    "docs/reliability.md": {"Before version 0.2": "a version"},
    "docs/results/archive.md": {
        "epsilon 0.05 has": "a number of the form",
        "version 0.1.0": "a version",
        "rounded to 0.1": "how the standard deviations are written",
        "choose 0.1 to 1": "the grid's numbers, in dense_penalties.csv",
        "ended at 0.1": "a limit of the classifier",
    },
    "docs/results/photos/table.md": {"lr x 0.333": "the tuning's rates"},
    "docs/results/photos_gpu/table.md": {"lr x 0.333": "the tuning's rates"},
    "docs/results/scenes/table.md": {"lr x 0.333": "the tuning's rates"},
    "docs/results/continuation/README.md": {"after 40 epochs on half A": "the start's length"},
    "docs/results/demo/README.md": {
        "in 5 minutes": "the last line of its table.md",
        "at most 0.1 then": "a limit of the classifier",
    },
    "docs/results/deployed/README.md": {
        "p is below 0.05": "the level",
        "Intervals are of 95 %": "the level",
        "1.8 times the CPU time": "checked on the page of distillation",
        "about 45 minutes": "the length that was planned",
        "2.5 % and 97.5 % quantiles": "of an interval of 95 %",
    },
    "docs/results/distillation/README.md": {
        "5 points or more": "the rule's number",
        "20 epochs at 192 px": "the length of the fine-tunings on coco128",
        "654 s, by paces that are not kept": "not kept",
    },
    "docs/results/forms/README.md": {
        "a frame of 0.25": "a number of the form",
        "alpha and beta of 0.1 and of 1 instead of 0.25": "numbers of the form",
        "one scale per step (with 0.5)": "a number of the form",
        "Cells with alpha and beta of 0.1 and": "a number of the form",
        "cells with alpha and beta of 0.1 instead of 0.25": "numbers of the form",
        "16 x 1.5² = 36 times": "arithmetic",
        "at most 0.1. Today": "a limit of the classifier",
    },
    "docs/results/scenes/README.md": {
        "below 0.3 of the deviation": "the limit of the mark",
        "differences of 0.1 to 1.3 points": "of the paper's Table 4",
    },
}
"""Phrases with figures of no CSV file, with the reason, by page."""
