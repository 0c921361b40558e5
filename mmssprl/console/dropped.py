"""What was dropped after version 0.2, and what to use instead. Kept for one release."""

import re

_TABLE: tuple[tuple[str, str], ...] = (
    ("profile", "use torch.profiler, as docs/speed.md shows; the log tells `data wait`"),
    ("prepare", "docs/data.md has the download commands; each command checks its data"),
    ("diagnose", "`report RUN` prints the verdict and writes the page"),
    (
        "visualize (all|method|tsne|prototypes)",
        "`visualize figures RUN OUT` draws them",
    ),
    ("visualize losses", "`report RUN` draws the losses"),
    ("(.* )?--force", "use --overwrite"),
    ("pretrain --set", "use --cfg-options"),
    ("pretrain --workers", "use --num-workers"),
    ("compare --budget", "use --equal epochs, time or flops"),
    ("scenes --size", "use --image-px"),
    (
        "pretrain --variant",
        "a form is a method: ssprl, ssprl-small-sampled, ssprl-released",
    ),
    ("pretrain --(heads-first|bn-momentum)", "set custom_hooks by --cfg-options"),
    ("pretrain --(backbone-share|layer-decay)", "set optim_wrapper.paramwise_cfg by --cfg-options"),
    ("pretrain --no-probe", "leave --probe out; in Python probe=False"),
    ("(.* )?--(probe-)?dense", "leave it out: regions are scored where DATA has masks"),
    ("pretrain --save-every", "--cfg-options save_every=15m"),
    ("pretrain --max-bad-share", "--cfg-options train_dataloader.dataset.max_bad_share=0.05"),
    ("(.* )?--yes", "leave it out: nothing asks any more"),
    ("(.* )?--(tensorboard|wandb)", "add its backend by --cfg-options, see docs/training.md"),
    ("(.* )?--(verbose|traceback)", "goes before the command: mmssprl --verbose COMMAND"),
    (
        "(.* )?--(launcher|local[-_]rank)",
        "use tools/train.py or tools/dist_train.sh",
    ),
    ("(embed|finetune|neighbors|probe) --(device|num-workers|batch-size|jobs)", "it is chosen"),
    ("(embed|neighbors) --(seed|labels|patches|above)", "dropped: see docs/embeddings.md"),
    ("select --above", "`mmssprl.select(..., above=)` in Python has it"),
    ("(probe|neighbors|select) --(csv|per-class)", "give --out FILE.csv"),
    ("finetune --backbone", "name its weights; a NAME.json beside them describes the network"),
    ("report --(out|overwrite)", "the page is RUN/report.html"),
    ("compare --(batch-size|held-out)", "give a config of your own as a method"),
    ("benchmark --(resume|overwrite|config)", "it resumes by itself; --work-dir for another one"),
    ("export --full", "export the backbone; the checkpoint holds all"),
    ("export --to (torchvision|timm|mmdet|mmseg|backbone)", "use --to pth: it reads that file"),
    ("convert --from", "leave it out: the layout is found by its keys; --prefix names a part"),
    ("method (mocov2-symmetric|ssprl-shared|ssprl-cells)", "its code is at commit f395fcb4"),
    (r"config ssprl-(cells|shared-views)_.*", "its code is at commit f395fcb4"),
    (r"config .*_resnet18_(scenes|photos|photos-gpu)\.py", "name its _coco.py config with --size"),
)
"""A pattern of what was typed, as COMMAND, COMMAND --OPTION or KIND NAME, and what to do."""


def answer(typed: str) -> str | None:
    """Return the line for something that was dropped, such as ``pretrain --variant``, or None."""
    for pattern, remedy in _TABLE:
        if re.fullmatch(pattern, typed.strip()):
            return f"{typed.strip()} was dropped: {remedy}."
    return None
