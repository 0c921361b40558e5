"""Answers to words that were dropped after version 0.2, or that belong to other tools."""

import re

_COMMIT = "its code is at commit f395fcb4"
_TABLE = {
    "profile": "use torch.profiler, as docs/speed.md shows; the log shows `data wait`",
    "prepare": "docs/data.md has the download commands; each command checks its data",
    "diagnose": "`report RUN` prints the verdict and writes the page",
    "visualize (all|method|tsne|prototypes)": "`visualize figures RUN OUT` draws them",
    "visualize losses": "`report RUN` draws the losses",
    "(.* )?--force": "use --overwrite",
    "pretrain --no-probe": "leave --probe out",
    "pretrain --variant": "name the form by --method: ssprl, ssprl-released, ssprl-small-sampled",
    "pretrain --(heads-first|backbone-share|layer-decay|bn-momentum)": "the recipe chooses it",
    "benchmark --(resume|overwrite|config)": "leave it out: the same command resumes by default",
    "method ablations": "name random swav pyramid-only cross-only shared-prototypes ssprl",
    "compare --budget": "use --equal epochs, time or flops",
    "pretrain --(workers|set)": "use --num-workers or --cfg-options",
    "pretrain --(save-every|max-bad-share)|(pretrain|train) --(tensorboard|wandb)": (
        "docs/training.md has the --cfg-options for it"
    ),
    "(.* )?--(traceback|verbose)": "--verbose before the command does it",
    "scenes --size": "use --image-px",
    "(.* )?--(probe-)?dense": "leave it out: regions are scored where DATA has masks",
    "(.* )?--(launcher|local[-_]rank)": "use tools/train.py or tools/dist_train.sh",
    "(probe|neighbors|select) --(csv|per-class)": "give --out FILE.csv",
    "select --above": "`mmssprl.select(..., above=)` in Python has it",
    "report --(out|overwrite)": "the page is RUN/report.html",
    "export --full": "export the backbone; the checkpoint holds all",
    "export --to (torchvision|timm|mmdet|mmseg|backbone)": "use --to pth: it reads that file",
    "(pretrain|finetune) --yes|finetune --(backbone|jobs)|demo --jobs|convert --from|"
    "compare --(held-out|batch-size)|(embed|neighbors|probe) --(device|num-workers|batch-size|"
    "seed|labels|patches|above)": "leave it out",
    "method (mocov2-symmetric|ssprl-shared|ssprl-cells)": _COMMIT,
    "config ssprl-(shared-views|cells)_.*": _COMMIT,
    r"config .*_resnet18_(scenes|photos|photos-gpu)\.py": "name its _coco.py config with --size",
}
"""Remedy by pattern: COMMAND, COMMAND --OPTION or KIND NAME. Kept for one release."""

_OTHER_TOOLS = {
    ".* --(device|gpu|gpu-ids?|cuda|cpu)": "CUDA_VISIBLE_DEVICES=0 takes one GPU, = the CPU",
    "(pretrain|finetune|compare) --(amp|fp16|bf16)": "mixed precision is used on GPUs by default",
    "(pretrain|finetune) --resume PATH": "--resume takes no path; it resumes the run in --work-dir",
    "train --(epochs|max-epochs)": (
        "use --cfg-options train_cfg.max_epochs=N; a warning names the schedule's numbers"
    ),
    "train --(lr|learning-rate)": "use --cfg-options optim_wrapper.optimizer.lr=X",
    "train --batch-size": "use --cfg-options train_dataloader.batch_size=N",
    "train --gpus": "use bash tools/dist_train.sh CONFIG N",
    r"(weights|teacher) (dinov[23]|vit_)[\w-]*": "write timm/NAME, see docs/photographs.md",
    r"(weights|teacher) (imagenet|in1k|torchvision|pretrained)[\w-]*": "write supervised",
    "weights (none|scratch|rand|false)": "write random",
}


def answer(typed: str) -> str | None:
    """Return the answer to words such as ``report --out``, None if there is none."""
    for table, fate in ((_TABLE, "was dropped"), (_OTHER_TOOLS, "is not known")):
        for pattern, remedy in table.items():
            if re.fullmatch(pattern, typed.strip(), re.IGNORECASE):
                return f"{typed.strip()} {fate}: {remedy}."
    return None
