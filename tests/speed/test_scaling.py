"""The scaling law by hand, what it counts, and the page that holds its results."""

from pathlib import Path

import pytest

from tools.speed import scaling
from tools.speed.scaling import GPUS, Gpu, Traffic, seconds

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
GIGABYTE = 10**9
SLOW = Gpu(plain=100, nvlink=1, network=0.5)


def test_gradients_take_a_ring_by_hand():
    # 4 GPUs: 2 x 3/4 of 8 GB at 0.8 x 1 GB/s = 15 s; 7 times 10 us and 6 steps of 3.4 us on top.
    found = seconds("gradients", Traffic(7, 8 * GIGABYTE), SLOW, 4)
    assert found == pytest.approx(15 + 7 * (10 + 6 * 3.4) * 1e-6, rel=1e-12)
    # 16 GPUs on 2 nodes: 28 steps inside, 2 between, and the network is the slower link.
    found = seconds("gradients", Traffic(1, 0), SLOW, 16)
    assert found == pytest.approx((10 + 28 * 3.4 + 2 * 9.6) * 1e-6)
    assert seconds("gradients", Traffic(0, 8 * GIGABYTE), SLOW, 16) == pytest.approx(37.5)


def test_small_collectives_by_hand():
    # 8 GPUs: 7 times the bytes at a quarter of 1 GB/s.
    assert seconds("SyncBN", Traffic(0, GIGABYTE), SLOW, 8) == pytest.approx(28)
    assert seconds("SyncBN", Traffic(1, 0), SLOW, 8) == pytest.approx((10 + 7 * 0.47) * 1e-6)
    # Between nodes steps inside of a node take 1.8 times as long.
    found = seconds("Sinkhorn", Traffic(3, 0), SLOW, 16)
    assert found == pytest.approx(3 * (10 + 14 * 1.8 * 0.47 + 2.7) * 1e-6)


def test_one_gpu_sends_nothing_and_infinite_links_scale_perfectly():
    sent = Traffic(7, GIGABYTE)
    assert seconds("gradients", sent, SLOW, 1) == seconds("SyncBN", sent, SLOW, 1) == 0
    ideal = Gpu(100, float("inf"), float("inf"))
    assert seconds("SyncBN", Traffic(0, GIGABYTE), ideal, 64) == 0


def test_a_step_sends_what_the_layers_say():
    # 53 layers of the backbone once per group, 3 of the necks; 600 prototypes in 2 pyramids.
    found = scaling.traffic(28)
    assert found["SyncBN"].number == 2 * (3 * 53 + 3)
    channels = 3 * 26_560 + 3 * 2048
    assert found["SyncBN"].num_bytes == 4 * (4 * channels + 3 * 53 + 3)
    assert found["Sinkhorn"] == Traffic(3, 3 * 4 * 2 * 600)
    assert found["gradients"].number == 7
    assert scaling.traffic(34)["SyncBN"].number == 2 * (4 * 53 + 3)


def test_lines_by_hand():
    one, eight, *_ = scaling.lines(["h100"], [1, 8], plain=1000.0)
    # 64 images of 7.413 crops at 1,000 crops/s, and a tenth of the step for augmentation.
    assert one[:4] == ["h100", "28", "1", "527.1"]
    assert one[7:] == ["527.1", "121", "100%", "1", "19"]
    assert eight[3] == one[3]
    assert float(eight[7]) == pytest.approx(sum(map(float, eight[3:7])), abs=0.2)


def test_the_page_holds_what_the_program_prints(capsys):
    assert scaling.main([]) == 0
    printed = capsys.readouterr().out.strip()
    text = PAGE.read_text(encoding="utf-8")
    assert text.endswith(f"\n\n{printed}\n"), "run python -m tools.speed.scaling, paste its table"
    assert "computed, not measured" in text[:150]
    # Three GPUs, two numbers of crops, three sizes.
    names = [line.split()[1] for line in printed.splitlines()[2:]]
    assert names == [name for name in GPUS for _ in range(6)]
    rates = "; ".join(f"{name} {gpu.plain:,.0f}" for name, gpu in GPUS.items())
    assert f"| R, crops/s of 224 px | {rates} |" in text
    for kind in ("SyncBN", "Sinkhorn", "gradients"):
        cells = [scaling.traffic(crops)[kind] for crops in (28, 34)]
        counts = " | ".join([*(str(c.number) for c in cells), *(f"{c.num_bytes:,}" for c in cells)])
        assert f"| {counts} |" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "12"], "must be in 1..8 or a multiple of 8, but got 12"),
        (["--gpus", "0"], "must be in 1..8 or a multiple of 8, but got 0"),
        (["--plain", "-1"], "--plain must be above 0, but got -1"),
    ],
)
def test_wrong_arguments_are_one_message(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        scaling.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
