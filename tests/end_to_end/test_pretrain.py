import contextlib
import io
import re

import pytest

from mmssprl.cli import main
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.runs import forecast


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    generate_scenes(folder / "scenes", num_train=24, num_val=12, size_px=96, progress=False)
    return folder


@pytest.fixture(scope="module")
def own_run(folder):
    """The work dir of `pretrain` on 24 images, and its output."""
    work_dir = folder / "own"
    coco = folder / "scenes/coco"
    line = f"pretrain {coco}/train2014 --work-dir {work_dir} --backbone resnet18 --epochs 2"
    measure = forecast.measure_pace

    def measure_and_look(*args, **options):
        result = measure(*args, **options)
        assert not work_dir.exists()
        return result

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setattr(forecast, "_LEAST_TIMED_STEPS", 1)
        patch.setattr(forecast, "measure_pace", measure_and_look)
        assert main(f"{line} --batch-size 8 --probe {coco}".split()) == 0
    return work_dir, said.getvalue()


def test_pretrain_forecasts_what_the_run_takes(own_run):
    work_dir, said = own_run
    hours, memory, disk = re.search(
        r"forecast: 2 epochs, about (.+) on this CPU \(.+ of its work\), "
        r"at least ([\d.]+) GB of memory, (\d+) MB of checkpoints, [\d,]+ [MG]B free",
        " ".join(said.split()),
    ).group(1, 2, 3)
    assert re.fullmatch(r"\d+ (s|min)", hours)
    assert 0.3 < float(memory) < 4
    sizes = [path.stat().st_size / 1e6 for path in work_dir.glob("*.pth")]
    # All files at the end, and a checkpoint of a stop between two epochs.
    assert float(disk) == pytest.approx(sum(sizes) + max(sizes), rel=0.03)


def test_the_console_of_pretrain_is_short(own_run):
    _, said = own_run
    lines = said.splitlines()
    assert len(lines) < 55
    paths = ("SwAV, ", "config: ", "backbone weights: ", "report: ", "next: ")
    assert [line for line in lines if len(line) > 110 and not line.startswith(paths)] == []
    assert said.count("ackbone weights") == 1


def test_the_console_of_pretrain_shows_whether_it_learns(own_run):
    _, said = own_run
    epochs = [line for line in said.splitlines() if line.startswith("epoch ")]
    assert ["  loss / ln K " in line for line in epochs] == [True] * 6
    probes = re.findall("^Probe (.*?):", said, re.M)
    assert probes == ["before the training", "after epoch 1", "after epoch 2"]


def test_the_console_of_pretrain_ends_with_what_to_do_next(own_run):
    _, said = own_run
    *_, line, last = said.splitlines()
    is_unclear = "no probe is clearly better" in line
    assert is_unclear or line.startswith("next: python -m mmssprl finetune ")
    assert last.startswith("next: python -m mmssprl probe ")


def test_what_the_console_leaves_out_is_in_the_log(own_run):
    work_dir, said = own_run
    [log] = work_dir.glob("*/*.log")
    text = log.read_text()
    assert text.count("Epoch(train)") == 6
    for dump in ("System environment:", "Config:\n", "Hooks will be executed", "Epoch(train)"):
        assert dump in text
        assert dump not in said


def resume(work_dir, images):
    return main(["pretrain", str(images), "--work-dir", str(work_dir), "--resume"])


def test_a_complete_run_is_reported_again(own_run, folder, capsys):
    work_dir, _ = own_run
    files = {path: path.stat().st_mtime_ns for path in work_dir.rglob("*")}
    assert resume(work_dir, folder / "scenes/coco/train2014") == 0
    first, report, *_, last = capsys.readouterr().out.splitlines()
    assert "finished" in first
    assert str(work_dir / "swav-small_resnet18_backbone.pth") in first
    assert report.startswith("report:")
    assert last.startswith("next:")
    assert {path: path.stat().st_mtime_ns for path in work_dir.rglob("*")} == files


def test_a_complete_run_is_resumed_only_with_its_own_images(own_run, capsys):
    work_dir, _ = own_run
    assert resume(work_dir, work_dir) == 2
    assert "resumed with its own images" in capsys.readouterr().err
