"""What is said about a profile."""

import csv
import io
import re
from dataclasses import replace

import pytest
from profiles import PROFILE, profile_with

from mmssprl.functional import phases
from mmssprl.timing import advise, format_csv, format_profile
from mmssprl.timing.result import dominant


class TestProfile:
    def test_rows_by_hand(self):
        rows = {row.name: row for row in PROFILE.rows}
        assert list(rows)[:3] == ["read and decode", "crop", "collate"]
        assert "heads forward" not in rows
        heads = rows["heads"]
        assert (heads.part, heads.ms_per_step, heads.ms_per_image) == ("step", 50, 12.5)
        assert heads.percent == pytest.approx(25)
        crop = rows["crop"]
        assert (crop.part, crop.ms_per_step, crop.percent) == ("loader", 24, pytest.approx(12))
        steps = [row for row in PROFILE.rows if row.part == "step"]
        assert sum(row.percent for row in steps) == pytest.approx(100)
        assert sum(row.ms_per_step for row in steps) == pytest.approx(200)

    def test_rates_by_hand(self):
        assert PROFILE.images_per_s == pytest.approx(20)
        assert PROFILE.cores_needed == pytest.approx(48 / 200)
        several = profile_with(num_processes=3, free_step_ms=100.0)
        assert several.images_per_s == pytest.approx(120)
        assert several.cores_needed == pytest.approx(0.48)  # of each process

    def test_the_backbone_is_one_part_when_it_dominates(self):
        assert dominant(PROFILE) == ("backbone", pytest.approx(50))

    def test_table(self):
        text = format_profile(PROFILE)
        table, below = text.split("\n\n")
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        cells = [line[1:] for line in lines]
        assert ["augment", "4.75", "19.00", "9.5"] in cells
        assert ["heads", "12.50", "50.00", "25.0"] in cells
        assert [line for line in cells if line[0] == "sum"] == [
            ["sum", "12.00", "48.00", "24.0"],
            ["sum", "50.00", "200.00", "100.0"],
        ]
        assert ["communication (one process)", "0", "0", "0"] in cells
        titles = {line[0]: line[1] for line in lines[2:] if line[0]}
        assert titles == {
            "loader, CPU time": "read and decode",
            "step, wall time": "copy to the device",
        }
        figures = dict(re.split("  +", line, maxsplit=1) for line in below.splitlines())
        assert figures["measured"] == (
            "20 images/s; a machine; 2 threads; cpu, float32; 4 images a step and process x 1; "
            "30 steps; 1,024 MiB resident"
        )
        assert figures["advice"] == advise(PROFILE)

    def test_table_of_several_gpus(self):
        options = {"num_processes": 2, "device": "cuda", "config_batch_size": 64}
        text = format_profile(profile_with(free_step_ms=160.0, **options))
        assert "one process" not in text
        assert "50 images/s; " in text
        assert "1,024 MiB allocated; the config's batch is 64" in text

    def test_csv_holds_the_rows(self):
        rows = list(csv.DictReader(io.StringIO(format_csv(PROFILE))))
        assert len(rows) == len(PROFILE.rows) == 12
        assert rows[1] == {
            "part": "loader",
            "phase": "crop",
            "ms_per_image": "6",
            "ms_per_step": "24",
            "percent_of_step": "12",
        }


class TestAdvice:
    def test_what_dominates(self):
        assert advise(PROFILE) == (
            "the step, not its loader, sets the pace; backbone takes 50 %: that is the work "
            "itself; on a GPU --amp, and --compile where it is taken, help."
        )
        step_ms = PROFILE.step_ms | {phases.COMMUNICATION: 900.0}
        assert "communication takes 82 %: a larger batch" in advise(
            replace(PROFILE, step_ms=step_ms)
        )

    def test_a_loader_in_the_training_process(self):
        assert advise(profile_with(num_workers=0)) == (
            "the loader adds 24 % to every step, because train_dataloader.num_workers=0; set it "
            "to 1."
        )
        assert "sets the pace" in advise(profile_with(num_workers=0, free_step_ms=1000.0))

    def test_too_few_workers(self, tmp_path):
        text = advise(
            profile_with(num_workers=4, num_small=6, data=str(tmp_path), free_step_ms=8.0)
        )
        assert text == (
            "the loader is the bottleneck: it needs 6.0 cores to keep up, but "
            "train_dataloader.num_workers=4; give it 6 cores and as many workers, put the "
            "images into one file with `tar cf photos.tar photos/`, fewer than 6 small views "
            "(reading and decoding is 25 % of it)."
        )

    def test_too_few_cores_and_one_file_already(self):
        text = advise(profile_with(cores=2.0, free_step_ms=10.0))
        assert "needs 4.8 cores to keep up, but each process has 2 cores" in text
        assert "tar cf" not in text
        assert "small views" not in text

    def test_a_slow_disk(self):
        text = advise(profile_with(num_workers=1, free_step_ms=8.0, loader={"wall_over_cpu": 3}))
        assert text.endswith(
            "; loading took 3.0 x its CPU time: the disk is slow or the cores are busy."
        )
