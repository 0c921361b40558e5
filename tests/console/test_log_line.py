from mmssprl.console.log_line import console_line, relative_name

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


def line(**more):
    return console_line({**PYRAMID, **PACE, "epochs_done": 1.0, **more}, 8, "ln K")


def test_a_slow_rate_has_a_decimal():
    assert "  0.3 images/s  " in line(images_per_second=0.34)
    assert "  12 images/s  " in line(images_per_second=12.3)


def test_a_wait_for_images_is_shown_from_a_tenth_of_the_time_on():
    assert "  data wait 23%  2.1 GB" in line(time=2.0, data_time=0.46)
    assert "data" not in line(time=2.0, data_time=0.18)


def test_the_last_line_has_no_time_left():
    assert line(eta=0.0).endswith("0.880  1,234 images/s  2.1 GB")
