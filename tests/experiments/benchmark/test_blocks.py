from mmssprl.experiments.benchmark.blocks import format_table
from mmssprl.experiments.benchmark.results import METRICS

COLUMNS = [(protocol, metric) for protocol, names in METRICS.items() for metric in names]
LINEAR = ["linear-coco mAP", "linear-voc mAP"]
SEMISUP = ["semisup-1 mAP", "semisup-10 mAP", "semisup-100 mAP"]
BOXES = ["box AP", "box AP50", "box AP75"]
MASKS = ["mask AP", "mask AP50", "mask AP75"]


def cells_of(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def blocks_of(width, cell="1.0", columns=COLUMNS):
    rows = [["a" * 28, *[cell] * len(columns)]]
    blocks = format_table((columns, rows), width)
    return [cells_of(block.partition("\n")[0])[1:] for block in blocks]


class TestFormatTable:
    def test_one_block_if_all_columns_fit(self):
        everything = [*LINEAR, *SEMISUP, *BOXES, *MASKS, "segmentation mIoU"]
        # 12 columns need 32 characters for names, and their heads with 3 more each.
        needed = 32 + sum(len(head) + 3 for head in everything)
        assert blocks_of(needed) == [everything]
        assert blocks_of(needed - 1) != [everything]

    def test_kinds_of_protocols_stay_together(self):
        assert blocks_of(120) == [[*LINEAR, *SEMISUP], [*BOXES, *MASKS, "segmentation mIoU"]]
        assert blocks_of(115) == [LINEAR, SEMISUP, BOXES + MASKS, ["segmentation mIoU"]]

    def test_what_is_too_wide_is_cut_between_boxes_and_masks_and_then_anywhere(self):
        detection = [column for column in COLUMNS if column[0] == "detection"]
        wide = "**52.0 ± 2.8**"  # 17 characters with its bar
        assert blocks_of(120, wide, detection) == [BOXES, MASKS]
        assert blocks_of(32 + 2 * 17, wide, detection) == [
            BOXES[:2],
            [BOXES[2], MASKS[0]],
            MASKS[1:],
        ]
        assert blocks_of(1, wide, detection) == [[head] for head in BOXES + MASKS]

    def test_rows_without_a_number_in_a_block_are_left_out_there(self):
        columns = [("linear-voc", "mAP"), ("segmentation", "mIoU")]
        rows = [["a", "1.0", "–"], ["b", "–", "failed"], ["c", "–", "–"], ["d", "2.0", "3.0"]]
        blocks = format_table((columns, rows), 32)
        assert [[cells_of(line) for line in block.splitlines()[2:]] for block in blocks] == [
            [["a", "1.0"], ["d", "2.0"]],
            [["b", "failed"], ["d", "3.0"]],
        ]
