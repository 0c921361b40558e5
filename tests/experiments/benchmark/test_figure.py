import pytest
from matplotlib.collections import PathCollection

from mmssprl.experiments.benchmark.figure import draw_benchmark
from mmssprl.experiments.benchmark.results import METRICS, Result

NAMES = ["random", "supervised", "mine"]


def done(weights, protocol, seed, value):
    metrics = {name: value - index for index, name in enumerate(METRICS[protocol])}
    return Result(protocol, weights, seed, metrics, seconds=1.0, status="done")


@pytest.fixture
def results():
    """Each backbone and protocol with seeds 0 and 1: 40 and 44, 50 and 54, 60 and 64."""
    return [
        done(name, protocol, seed, 40.0 + 10 * row + 4 * seed)
        for protocol in METRICS
        for row, name in enumerate(NAMES)
        for seed in (0, 1)
    ]


def panels(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}


def dots(axes):
    """(Row with its shift, value) of every dot."""
    found = [
        (round(float(y), 2), float(x))
        for points in axes.collections
        if isinstance(points, PathCollection)
        for x, y in points.get_offsets()
    ]
    return sorted(found)


def means(axes):
    """(Middle of the line, value) of every mean."""
    lines = [line.get_data() for line in axes.lines if line.get_linestyle() == "-"]
    assert all(x[0] == x[1] for x, _ in lines)
    return sorted((round(float(sum(y)) / 2, 2), float(x[0])) for x, y in lines)


def dashed(axes):
    return [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() != "-"]


def marks(axes):
    return [(text.get_text(), text.xy[1]) for text in axes.texts]


class TestDrawBenchmark:
    def test_a_panel_per_protocol_and_a_dot_per_seed(self, results):
        found = panels(draw_benchmark(results, "scenes"))
        assert list(found) == list(METRICS)
        assert found["linear-coco"].get_xlabel() == "mAP, %"
        assert found["segmentation"].get_xlabel() == "mIoU, %"
        for protocol, axes in found.items():
            # Names stand once per row of panels.
            first = protocol in ("linear-coco", "semisup-100")
            assert [label.get_text() for label in axes.get_yticklabels()] == NAMES * first
            # The first row is at the top.
            assert axes.get_ylim()[0] > axes.get_ylim()[1]
            assert not dashed(axes)
            if protocol != "detection":
                assert dots(axes) == [
                    *[(0.0, 40.0), (0.0, 44.0)],
                    *[(1.0, 50.0), (1.0, 54.0)],
                    *[(2.0, 60.0), (2.0, 64.0)],
                ]
                assert means(axes) == [(0.0, 42.0), (1.0, 52.0), (2.0, 62.0)]

    def test_detection_shows_boxes_above_masks(self, results):
        axes = panels(draw_benchmark(results, "scenes"))["detection"]
        # Mask AP is the fourth metric, 3 points below.
        assert dots(axes)[:4] == [(-0.22, 40.0), (-0.22, 44.0), (0.22, 37.0), (0.22, 41.0)]
        assert len(dots(axes)) == 12
        assert means(axes)[:2] == [(-0.22, 42.0), (0.22, 39.0)]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["box", "mask"]
        assert axes.get_xlabel() == "AP, %"

    def test_only_the_papers_size_shows_the_papers_numbers(self, results):
        found = panels(draw_benchmark(results, "paper"))
        assert {protocol: dashed(axes) for protocol, axes in found.items()} == {
            "linear-coco": [61.3],
            "linear-voc": [80.5],
            "semisup-1": [45.1],
            "semisup-10": [57.0],
            "semisup-100": [62.9],
            "detection": [20.2, 19.1],
            "segmentation": [62.4],
        }
        low, high = found["linear-voc"].get_xlim()
        assert low < 40.0
        assert high > 80.5

    @pytest.mark.parametrize(
        ("size", "note"),
        [
            ("paper", "the paper's SS-PRL, pre-trained on COCO"),
            ("scenes", "not comparable with the paper's numbers"),
            ("coco128", "noise at this size, 100 training images"),
        ],
    )
    def test_the_title_says_what_to_think_of_it(self, results, size, note):
        title = draw_benchmark(results, size).get_suptitle()
        assert title.startswith(f"Benchmark, size {size}: a dot per seed, a line at the mean")
        assert title.endswith(note)

    def test_missing_runs_are_marked(self, results):
        kept = [result for result in results if result.protocol == "linear-voc"]
        # supervised keeps its dot of seed 0; mine loses both; a fourth backbone was skipped.
        kept[3:] = [
            Result("linear-voc", "supervised", 1, {}, 0.0, "failed", "x"),
            Result("linear-voc", "mine", 0, {}, 0.0, "skipped", "x"),
            Result("linear-voc", "mine", 1, {}, 0.0, "failed", "x"),
            Result("linear-voc", "other", 0, {}, 0.0, "skipped", "x"),
            done("elsewhere", "semisup-1", 0, 50.0),
        ]
        axes = panels(draw_benchmark(kept, "scenes"))["linear-voc"]
        assert dots(axes) == [(0.0, 40.0), (0.0, 44.0), (1.0, 50.0)]
        assert marks(axes) == [("failed", 2), ("skipped", 3)]

    @pytest.mark.parametrize(
        ("values", "limits"),
        [
            ((40.0, 60.0), (38.0, 62.0)),
            ((50.0, 50.2), (47.6, 52.6)),
            ((0.0, 1.0), (-0.1, 4.9)),
            ((99.0, 100.0), (95.1, 100.1)),
        ],
    )
    def test_axes_span_the_values_and_at_least_5_points(self, values, limits):
        results = [done("w", "linear-voc", seed, value) for seed, value in enumerate(values)]
        axes = draw_benchmark(results, "scenes").axes[0]
        assert axes.get_xlim() == pytest.approx(limits)

    def test_an_axis_without_values_is_the_whole_range(self):
        results = [Result("linear-voc", "w", 0, {}, 0.0, "failed", "x")]
        assert draw_benchmark(results, "scenes").axes[0].get_xlim() == (0.0, 100.0)

    def test_writes_a_picture(self, results, tmp_path):
        path = tmp_path / "benchmark.png"
        draw_benchmark(results, "coco128").savefig(path)
        assert path.read_bytes().startswith(b"\x89PNG")
