"""Runtime of detection and segmentation: iteration-based, one seed, keeps two checkpoints."""

randomness = dict(seed=0)
env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0),
    dist_cfg=dict(backend="nccl", timeout=600),
)
default_hooks = dict(
    timer=dict(type="IterTimerHook"),
    logger=dict(type="LoggerHook", interval=50, log_metric_by_epoch=False),
    param_scheduler=dict(type="ParamSchedulerHook"),
    checkpoint=dict(type="CheckpointHook", by_epoch=False, interval=5000, max_keep_ckpts=2),
    sampler_seed=dict(type="DistSamplerSeedHook"),
)
log_processor = dict(type="LogProcessor", window_size=50, by_epoch=False)
vis_backends = [dict(type="LocalVisBackend")]
visualizer = dict(type="Visualizer", vis_backends=vis_backends)
log_level = "INFO"
load_from = None
resume = False
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
