"""Runtime of the multi-label protocols: epoch-based, one seed, logs, checkpoints."""

default_scope = "mmssprl"
randomness = dict(seed=0)
env_cfg = dict(
    cudnn_benchmark=True,
    mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0),
    dist_cfg=dict(backend="nccl", timeout=600),
)
default_hooks = dict(
    timer=dict(type="IterTimerHook"),
    logger=dict(type="LoggerHook", interval=50),
    param_scheduler=dict(type="ParamSchedulerHook"),
    checkpoint=dict(type="CheckpointHook", interval=10, max_keep_ckpts=2),
    sampler_seed=dict(type="DistSamplerSeedHook"),
)
visualizer = dict(type="Visualizer", vis_backends=[dict(type="LocalVisBackend")])
log_level = "INFO"
load_from = None
resume = False
