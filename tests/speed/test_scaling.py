"""The scaling law against closed forms, its counts against other counts, its document."""

import importlib
from dataclasses import replace

import counts
import pytest
import scaling
import torch
from loader_times import speed_rows
from measure import Row
from mmengine.config import Config
from report import write as write_report
from scaling_inputs import GPUS, Assumptions, Cluster, Gpu, Latencies
from scaling_law import (
    bucket_seconds,
    gather_seconds,
    kernel_seconds,
    rate,
    reduce_seconds,
    roofline_seconds,
    simulate,
)
from step_events import (
    Event,
    equivalent_crops,
    events_of_model,
    num_waits,
    overlap_share,
    plain_events,
    total_bytes,
    total_flops,
    training_events,
)

# 1 TFLOP/s, 1 TB/s, links of 1 GB/s: seconds can be read off the numbers.
UNIT = Gpu(1, 1, 1, 1, 1, 1, 8, 8, "made up")
IDEAL = Assumptions(1.0, augment_share=0, host_us=0, collective_us=0, link_share=1)
NO_LATENCY = Latencies(0, 0, 0, 0, 0, 0, 1, 1)
SECOND = Event("op", "work", 10**12)  # of memory traffic
GIGABYTE = 10**9
# Eight channels: with four, oneDNN's channels-last backward writes out of bounds (torch 2.11).
TINY = """
layout = dict(image_px=32, levels=[dict(grid=2, resize_px=64, patch_px=16)])
model = dict(
    type="SSPRL",
    layout=layout,
    backbone=dict(type="ResNet", depth=18, stem_channels=8, base_channels=8),
    neck=dict(type="MultiHeadNeck", in_channels=64, hid_channels=8, out_channels=8),
    head=dict(type="SinkhornHead", in_channels=8, num_prototypes=20, num_patch_prototypes=10),
)
"""


@pytest.fixture(scope="module")
def tiny():
    return Config.fromstring(TINY, ".py")


@pytest.fixture(scope="module")
def tiny_events(tiny):
    return events_of_model(counts.build_model(tiny), 2)


def at_rate(events, cluster, given, **options):
    settings = {"loader_ms": 1e-9, "crop_bytes": 0, "cores_per_node": 1} | options
    return rate(events, 64, cluster, given, **settings)


@pytest.mark.parametrize(
    ("flops", "num_bytes", "efficiency", "seconds"),
    [(3e12, 1e12, 1, 3), (1e12, 2e12, 1, 2), (0, 1e12, 0.5, 2), (4e12, 0, 0.8, 5)],
)
def test_an_op_takes_the_slower_of_arithmetic_and_traffic(flops, num_bytes, efficiency, seconds):
    event = Event("op", "work", int(num_bytes), int(flops))
    assert kernel_seconds(event, UNIT, efficiency) == pytest.approx(seconds)


def test_one_gpu_is_its_roofline_and_the_augmentation():
    # 2 s of ops; augmentation is a fifth of the whole, 0.5 s of 2.5 s.
    events = (SECOND, Event("gather", "SyncBN", 1), SECOND, Event("gradient", "w", GIGABYTE))
    step = simulate(events, Cluster(UNIT, 1), replace(IDEAL, augment_share=0.2))
    assert (step.gpu, step.total) == pytest.approx((2.5, 2.5))
    assert (step.norm, step.sinkhorn, step.gradients, step.host) == (0, 0, 0, 0)
    assert step.limit == "GPU"


def test_infinite_links_scale_perfectly(tiny_events):
    gpu = replace(UNIT, nvlink_gb_s=float("inf"), nic_gb_s=float("inf"))
    one = simulate(tiny_events, Cluster(gpu, 1), IDEAL, NO_LATENCY)
    many = simulate(tiny_events, Cluster(gpu, 64), IDEAL, NO_LATENCY)
    assert many.total == pytest.approx(one.total)
    assert many.gradients == many.norm == many.sinkhorn == 0


def test_a_bucket_takes_a_ring_by_hand():
    # 4 GPUs: 2 x 3/4 of 8 GB at 0.5 x 1 GB/s = 24 s; 10 us and 6 steps of 3.4 us on top.
    given = replace(IDEAL, collective_us=10, link_share=0.5)
    seconds = bucket_seconds(8 * GIGABYTE, Cluster(UNIT, 4), given, Latencies())
    assert seconds == pytest.approx(24 + 10e-6 + 6 * 3.4e-6, rel=1e-12)
    # 16 GPUs on 2 nodes of NVLink 20 and 8 x 1 GB/s: 2 x 15/16 of 8 GB at 8 GB/s.
    gpu = replace(UNIT, nvlink_gb_s=20)
    seconds = bucket_seconds(8 * GIGABYTE, Cluster(gpu, 16), IDEAL, NO_LATENCY)
    assert seconds == pytest.approx(1.875)
    two_nodes = bucket_seconds(0, Cluster(gpu, 16), IDEAL, Latencies())
    assert two_nodes == pytest.approx((28 * 3.4 + 2 * 9.6) * 1e-6)


def test_small_collectives_by_hand():
    given = replace(IDEAL, collective_us=10)
    one_node, two_nodes = Cluster(UNIT, 8), Cluster(UNIT, 16)
    latencies = replace(Latencies(), small_bandwidth_share=1.0)
    assert gather_seconds(0, one_node, given, latencies) == pytest.approx((10 + 7 * 0.47) * 1e-6)
    assert gather_seconds(0, two_nodes, given, latencies) == pytest.approx(
        (10 + 14 * 1.8 * 0.47 + 2.7) * 1e-6
    )
    # The tree wins between nodes: 2 (7 x 1.8 x 0.52 + 5) = 23.1 us against 29.1 us of the ring.
    assert reduce_seconds(0, two_nodes, given, latencies) == pytest.approx(
        (10 + 2 * (7 * 1.8 * 0.52 + 5)) * 1e-6
    )
    # In one node the ring wins, by its shorter steps.
    assert reduce_seconds(0, one_node, given, latencies) == pytest.approx((10 + 14 * 0.47) * 1e-6)
    assert gather_seconds(GIGABYTE, one_node, IDEAL, NO_LATENCY) == pytest.approx(7)
    assert reduce_seconds(GIGABYTE, one_node, IDEAL, NO_LATENCY) == pytest.approx(1.75)
    assert gather_seconds(1, Cluster(UNIT, 1), given, latencies) == 0
    assert reduce_seconds(1, Cluster(UNIT, 1), given, latencies) == 0


def test_gradients_hide_behind_kernels_and_hold_up_small_collectives():
    # 2 GPUs at 1 GB/s: an all-reduce of 1 GB takes 1 s, a gather of 0.25 GB takes 0.25 s.
    cluster = Cluster(UNIT, 2)
    gradient, half = Event("gradient", "w", GIGABYTE), Event("gradient", "b", GIGABYTE // 2)
    gather = Event("gather", "SyncBN", GIGABYTE // 4)
    hidden = simulate((SECOND, gradient, SECOND, half), cluster, IDEAL, NO_LATENCY)
    assert (hidden.gpu, hidden.gradients) == pytest.approx((2, 0.5))
    # The gather is issued 0 s after the gradient: it waits 1 s for it, then takes 0.25 s itself.
    held_up = simulate((SECOND, gradient, gather, SECOND, half), cluster, IDEAL, NO_LATENCY)
    assert (held_up.gpu, held_up.norm, held_up.gradients) == pytest.approx((2, 0.25, 1.5))
    # The optimizer does not start before the last gradient has arrived.
    optimizer = simulate((SECOND, gradient, SECOND), cluster, IDEAL, NO_LATENCY)
    assert optimizer.gradients == pytest.approx(1)
    assert optimizer.total == pytest.approx(3)


def test_buckets_are_sent_when_they_are_full():
    # The first gradient fills DDP's first bucket, the others wait for each other: 5 and 10 GB.
    given = replace(IDEAL, first_bucket_bytes=GIGABYTE, bucket_bytes=10 * GIGABYTE)
    parts = [Event("gradient", name, 5 * GIGABYTE) for name in "abc"]
    events = (parts[0], SECOND, parts[1], SECOND, parts[2])
    step = simulate(events, Cluster(UNIT, 2), given, NO_LATENCY)
    # a is sent from 0 to 5 s; b and c together from 5 to 15 s, kernels end at 2 s.
    assert (step.gpu, step.gradients) == pytest.approx((2, 13))


def test_a_slow_host_sets_the_pace():
    step = simulate((SECOND,) * 3, Cluster(UNIT, 1), replace(IDEAL, host_us=4e6))
    assert (step.gpu, step.host, step.total, step.limit) == pytest.approx((3, 9, 12, "host"))


def test_a_slow_loader_sets_the_pace():
    # 2 nodes of 10 cores, 50 ms an image: 400 images/s; the 16 GPUs could make 16 x 64 a second.
    found = at_rate(
        (SECOND,), Cluster(UNIT, 16), IDEAL, loader_ms=50, cores_per_node=10, crop_bytes=10**6
    )
    assert found.limit == "loader"
    assert found.images == pytest.approx(400)
    assert found.cores_per_node == pytest.approx(512 * 0.05)
    assert found.jpeg_mb_per_node == pytest.approx(200 * 0.16)
    assert found.pcie_gb_per_gpu == pytest.approx(0.025)


def test_network_of_a_node_by_hand():
    # 16 GPUs at one step per second + gradients: 2 x 15/16 of 1 GB leave each node per step.
    events = (SECOND, Event("gradient", "w", GIGABYTE))
    found = at_rate(events, Cluster(UNIT, 16), IDEAL)
    expected = 8 * 1.875 / found.step.total
    assert found.network_gbit_per_node == pytest.approx(expected)
    assert at_rate(events, Cluster(UNIT, 8), IDEAL).network_gbit_per_node == 0


def test_monotonic(tiny_events):
    given = Assumptions(0.5)
    # Slow links beside a fast GPU, or the tiny step would hide nothing.
    gpu = replace(GPUS["a100"], nvlink_gb_s=1, nic_gb_s=0.05)
    steps = [simulate(tiny_events, Cluster(gpu, n), given) for n in (1, 2, 8, 16, 64)]
    waits = [step.norm + step.sinkhorn + step.gradients for step in steps]
    assert waits == sorted(waits)
    assert len(set(waits)) == len(waits)
    faster = replace(gpu, nvlink_gb_s=10, nic_gb_s=0.5)
    cluster = Cluster(gpu, 64)
    before = simulate(tiny_events, cluster, given)
    after = simulate(tiny_events, Cluster(faster, 64), given)
    assert after.gradients < before.gradients
    assert after.norm < before.norm
    assert after.gpu == before.gpu
    slower = simulate(tiny_events, cluster, replace(given, efficiency=0.25, host_us=0))
    assert slower.gpu == pytest.approx(2 * before.gpu)


@pytest.mark.parametrize("num", [0, 9, 12])
def test_nodes_are_full(num):
    with pytest.raises(ValueError, match=f"multiple of 8, but got {num}; fill the nodes"):
        Cluster(UNIT, num)


def test_events_agree_with_the_other_counts(tiny, tiny_events):
    assert total_flops(tiny_events) == 2 * sum(counts.flops_per_image(tiny).values())
    assert total_bytes(tiny_events, "gradient") == counts.parameter_counts(tiny)["gradient_bytes"]
    model = counts.build_model(tiny)
    named = [name for name, _ in model.named_parameters()]
    assert sorted(e.what for e in tiny_events if e.kind == "gradient") == sorted(named)


def test_syncbn_waits_twice_per_layer_and_use(tiny, tiny_events):
    model = counts.build_model(tiny)
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
    layers = [m for m in model.backbone.modules() if isinstance(m, norms)]
    groups, scales = 2, 2
    assert len(layers) == 20
    assert num_waits(tiny_events, "SyncBN") == 2 * (groups * 20 + scales)
    gathers = [e.num_bytes for e in tiny_events if e.kind == "gather" and e.what == "SyncBN"]
    channels = groups * sum(layer.num_features for layer in layers) + scales * 8
    assert sum(gathers) == 4 * (2 * channels + len(gathers))
    assert total_bytes(tiny_events, "reduce") == 4 * 2 * channels


def test_sinkhorn_sends_what_is_counted(tiny, tiny_events, monkeypatch):
    sent = []

    def record(values):
        sent.append(values.numel() * values.element_size())
        return values

    # By its name in the package it would be the function, not the module.
    module = importlib.import_module("mmssprl.functional.sinkhorn")
    monkeypatch.setattr(module, "_logsumexp_over_ranks", record)
    model = counts.build_model(tiny)
    batch = model.data_preprocessor(counts.random_batch(model.layout, 4), training=True)
    model(**batch, mode="loss")
    counted = [event.num_bytes for event in tiny_events if event.what == "Sinkhorn"]
    assert sent == counted == [4 * 2 * (20 + 10)] * 3


def test_gradients_are_final_in_the_backward_pass_of_the_first_group_only(tiny, tiny_events):
    # The same on real tensors: backward reaches the first group's features last.
    model = counts.build_model(tiny)
    order = []
    for name, parameter in model.backbone.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    uses = iter(range(2))

    def watch(module, inputs, outputs):
        use = next(uses)
        outputs[-1].register_hook(lambda gradient: order.append(f"group {use}"))

    model.backbone.register_forward_hook(watch)
    batch = model.data_preprocessor(counts.random_batch(model.layout, 4), training=True)
    sum(model(**batch, mode="loss").values()).backward()
    assert order[:2] == ["group 1", "group 0"]
    counted = [e.what for e in tiny_events if e.kind == "gradient" and "backbone" in e.what]
    assert sorted(order[2:]) == sorted(name.removeprefix("backbone.") for name in counted)
    assert counted[-1] == "backbone.conv1.weight"
    # Less than half of the step: two of three FLOPs are backward, most of them the first group's.
    assert 0 < overlap_share(tiny_events) < 0.5


def test_shipped_models_have_the_known_sizes():
    # 24.3 GFLOP per crop of 224 px; 28 crops are 7.41 and 34 crops 8.51 of these.
    batch, plain_batch = 64, 256
    assert total_flops(plain_events(plain_batch)) / plain_batch == pytest.approx(24.3e9, rel=2e-3)
    assert equivalent_crops(28, batch, plain_batch) == pytest.approx(7.41, abs=0.01)
    assert equivalent_crops(34, batch, plain_batch) == pytest.approx(8.51, abs=0.01)
    events = training_events(28, batch)
    assert num_waits(events, "Sinkhorn") == 3
    assert num_waits(events, "SyncBN") == 2 * (3 * 53 + 3)
    assert scaling.crop_bytes(28) == 1_099_776
    # The published rate comes out of the calibrated law.
    published = scaling.PUBLISHED
    seconds = roofline_seconds(
        plain_events(plain_batch), GPUS[published.gpu], scaling.calibrated_efficiency()
    )
    assert plain_batch / seconds == pytest.approx(2470)
    assert published.batch == plain_batch


def test_the_document_holds_what_the_program_prints(capsys):
    assert scaling.main([]) == 0
    printed = capsys.readouterr().out.strip()
    document = scaling.DOCUMENT.read_text(encoding="utf-8")
    inside = document.split(scaling.BEGIN)[1].split(scaling.END)[0].strip()
    assert inside == printed, "run: python tools/benchmarks/scaling.py --write"
    assert "computed, not measured" in "".join(document.splitlines()[:4])
    # Two numbers of crops, three sizes, in two tables.
    assert (
        sum(line.startswith(("| h200 |", "| h100 |", "| a100 |")) for line in inside.split("\n"))
        == 36
    )


def test_write_replaces_only_what_is_between_the_markers(tmp_path, monkeypatch):
    document = tmp_path / "scaling.md"
    document.write_text(f"before\n{scaling.BEGIN}\nold\n{scaling.END}\nafter\n")
    monkeypatch.setattr(scaling, "DOCUMENT", document)
    monkeypatch.setattr(scaling, "tables", lambda **options: r"new \1")
    assert scaling.main(["--write"]) == 0
    expected = f"before\n{scaling.BEGIN}\n\nnew \\1\n\n{scaling.END}\nafter\n"
    assert document.read_text() == expected
    assert scaling.main(["--write"]) == 0
    assert document.read_text() == expected
    with pytest.raises(ValueError, match="once each"):
        scaling.insert("no markers", "text")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "12"], "multiple of 8, but got 12"),
        (["--gpus", "0"], "must be at least 1"),
        (["--cores-per-node", "0"], "--cores-per-node must be above 0, but got 0"),
        (["--loader-ms", "-1"], "--loader-ms must be above 0, but got -1"),
        (["--write", "--crops", "28"], "--write takes no other option"),
    ],
)
def test_wrong_arguments_are_one_message(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(scaling, "calibrated_efficiency", lambda: 0.5)
    monkeypatch.setattr(scaling, "training_events", lambda num, batch: (SECOND,))
    with pytest.raises(SystemExit) as stop:
        scaling.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_the_loader_s_time_is_the_measured_one_if_there_is_one(tmp_path):
    assumed, source = scaling.measured_loader(34, tmp_path / "cpu.csv")
    assert assumed > 0
    assert source == "assumption: no ours_34_ms in results/cpu.csv yet"
    rows = [
        Row(f"ours_{n}_ms", "made up", ms, "ms", better="lower") for n, ms in ((28, 5.0), (34, 5.6))
    ]
    write_report(rows, tmp_path, "cpu", title="Made up", machine={"cpu": "none"})
    for num, ms in ((28, 5.0), (34, 5.6)):
        expected = (ms, f"measured on a CPU: results/cpu.csv, ours_{num}_ms")
        assert scaling.measured_loader(num, tmp_path / "cpu.csv") == expected


def test_the_row_of_the_loader_s_time_exists():
    rows = speed_rows({"ours": [0.005, 0.007, 0.006]}, 34)
    assert [row.value for row in rows if row.id == scaling.LOADER_ROW.format(crops=34)] == [6.0]
