from benchmark_runs import done, failed

from mmssprl.benchmark.results import METRICS
from mmssprl.benchmark.tables import format_terminal


class TestTerminalTable:
    def test_wide_tables_are_cut_into_blocks(self):
        name = "ssprl_resnet50_2xb64-coslr-200e_coco_backbone_of_epoch_200"
        protocols = ("linear-coco", "linear-voc", "detection", "segmentation")
        results = [
            done(weights, protocol, seed, *([99.9 - 50 * seed] * len(METRICS[protocol])))
            for weights in ("random", name)
            for protocol in protocols
            for seed in (0, 1)
        ]
        results[-1] = failed(name, "segmentation", 1, "word " * 60)
        text = format_terminal(results, "scenes")
        lines = text.splitlines()
        assert max(map(len, lines)) <= 120
        assert "*" not in text
        heads = [line.split()[1:] for line in lines if line.startswith("weights ")]
        # Four columns fit, but those of the boxes stay together.
        assert heads[:3] == [
            ["linear-coco", "linear-voc"],
            ["detection", "detection", "detection"],
            ["detection", "detection", "detection", "segmentation"],
        ]
        # The name is whole, on two lines in each block.
        first = [i for i, line in enumerate(lines) if line.startswith("ssprl_resnet50")]
        assert [lines[index].split()[0] for index in first[:3]] == [
            "ssprl_resnet50_2xb64-coslr-"
        ] * 3
        assert [lines[index + 1] for index in first[:3]] == ["200e_coco_backbone_of_epoch_200"] * 3
        assert lines[first[0]].count("74.9 ± 35.4 (n=2)") == 2

    def test_a_row_without_numbers_in_a_block_is_left_out_there(self):
        lines = format_terminal(
            [done("a", protocol, 0, *([5.0] * len(METRICS[protocol]))) for protocol in METRICS],
            "paper",
        ).splitlines()
        blocks = "\n".join(lines).split("\n\n")
        assert "paper: BYOL, COCO" in blocks[1]
        assert "detection" in blocks[2]
        assert "paper: BYOL, COCO" not in blocks[2]
        assert "paper: MoCo v2, COCO" in blocks[2]
