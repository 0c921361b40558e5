from mmssprl.console.log_line import console_line, relative_name
from mmssprl.console.wording import CONSOLE_WIDTH

PYRAMID = {f"relative_pyramid_s{s}": 0.9 - s / 100 for s in range(3)}
CROSS = {f"relative_cross_s{s}": 0.95 for s in (1, 2)}
PACE = {"images_per_second": 1234.5, "memory": 2000, "eta": 5400.0}


def test_a_line_of_ss_prl():
    assert relative_name("loss_pyramid_s0") in PYRAMID
    values = {**PYRAMID, **CROSS, **PACE, "epochs_done": 12.4}
    assert console_line(values, 100, "ln K") == (
        "epoch  12.40/100  loss / ln K 0.900 0.890 0.880  cross 0.950 0.950  1,234 images/s  "
        "2.1 GB  1.5 h left"
    )


def test_a_slow_rate_and_the_last_line():
    values = {**PYRAMID, **PACE, "epochs_done": 1.0}
    assert "  0.3 images/s  " in console_line({**values, "images_per_second": 0.34}, 8, "ln K")
    assert "  12 images/s  " in console_line({**values, "images_per_second": 12.3}, 8, "ln K")
    assert console_line({**PYRAMID, "epochs_done": 8.0, "eta": 0.0}, 8, "ln K").endswith("0.880")


def test_a_slow_loader_is_told():
    values = {**PYRAMID, **PACE, "epochs_done": 1.0, "time": 2.0}
    assert "  data wait 23%  2.1 GB" in console_line({**values, "data_time": 0.46}, 8, "ln K")
    assert "data" not in console_line({**values, "data_time": 0.18}, 8, "ln K")


def test_no_line_is_too_wide():
    wide = {**PYRAMID, **CROSS, "epochs_done": 7999.99, "images_per_second": 123456.0}
    wide |= {"memory": 400_000, "eta": 4e7}
    assert len(console_line(wide, 8000, "ln K")) <= CONSOLE_WIDTH
    assert "left" in console_line(wide, 8000, "ln K")
    many = {f"relative_pyramid_s{s}": 10.123 for s in range(12)}
    assert len(console_line({**wide, **many}, 8000, "ln K")) <= CONSOLE_WIDTH
