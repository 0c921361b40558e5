"""Runtime of pre-training: one seed, SyncBN on several GPUs, logs, checkpoints."""

default_scope = "mmssprl"
randomness = dict(seed=0)
sync_bn = "torch"  # only with several processes; CPU processes keep their own statistics
env_cfg = dict(
    cudnn_benchmark=True,
    mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0),
    dist_cfg=dict(backend="nccl", timeout=600),
)
default_hooks = dict(
    runtime_info=dict(type="PretrainRuntimeInfoHook"),
    timer=dict(type="IterTimerHook"),
    logger=dict(type="LoggerHook", interval=50),
    param_scheduler=dict(type="ParamSchedulerHook"),
    checkpoint=dict(type="PretrainCheckpointHook", interval=10, max_keep_ckpts=3),
    sampler_seed=dict(type="DistSamplerSeedHook"),
)
custom_hooks = [dict(type="PretrainHook"), dict(type="MonitorHook")]
log_processor = dict(type="PretrainLogProcessor", window_size=10)
vis_backends = [dict(type="LocalVisBackend")]
visualizer = dict(type="Visualizer", vis_backends=vis_backends)
log_level = "INFO"
load_from = None
resume = False
