import re
from dataclasses import replace

import pytest
from helpers.timing.profiles import PROFILE, profile_with

from mmssprl.functional import phases
from mmssprl.timing import advise, format_csv, format_profile


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
        for part in ("20 images/s", "2 threads", "cpu, float32", "30 steps", "1,024 MiB resident"):
            assert part in figures["measured"]
        assert figures["advice"] == advise(PROFILE)

        options = {"num_processes": 2, "device": "cuda", "config_batch_size": 64}
        text = format_profile(profile_with(free_step_ms=160.0, **options))
        assert "one process" not in text
        assert "50 images/s; " in text
        assert "1,024 MiB allocated; the config's batch is 64" in text

    def test_csv_holds_the_rows(self):
        head, *rows = format_csv(PROFILE).splitlines()
        assert head == "part,phase,ms_per_image,ms_per_step,percent_of_step"
        assert len(rows) == len(PROFILE.rows) == 12
        assert rows[1] == "loader,crop,6,24,12"


class TestAdvice:
    def test_what_dominates(self):
        text = advise(PROFILE)
        assert "sets the pace; backbone takes 50 %" in text  # forward and backward are one part
        assert "--amp" in text
        text = advise(replace(PROFILE, step_ms=PROFILE.step_ms | {phases.COMMUNICATION: 900.0}))
        assert "communication takes 82 %: a larger batch" in text

    def test_a_loader_in_the_training_process(self):
        text = advise(profile_with(num_workers=0))
        assert "adds 24 %" in text
        assert "num_workers=0; set it to 1" in text
        assert "sets the pace" in advise(profile_with(num_workers=0, free_step_ms=1000.0))

    @pytest.mark.parametrize(
        ("options", "needed", "there", "decoding"),
        [
            ({"num_workers": 4, "free_step_ms": 8.0}, "6.0", "num_workers=4; give it 6", "25 %"),
            ({"cores": 2.0, "free_step_ms": 10.0}, "4.8", "each process has 2 cores", "25 %"),
        ],
    )
    def test_too_few_workers_or_cores(self, options, needed, there, decoding):
        text = advise(profile_with(**options))
        for part in (f"needs {needed} cores", there, decoding):
            assert part in text
