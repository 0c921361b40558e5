"""What WEIGHTS may be, taken apart."""

import subprocess
import sys

import pytest

from mmssprl.weights import Source, refuse_random, whole_path, with_network, without_words


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (None, Source(word="random")),
        ("random", Source(word="random")),
        ("supervised", Source(word="supervised")),
        ("own", Source(word="own")),
        ("timm/x", Source(timm="timm/x")),
        ("timm/x:dir/w.pth", Source(timm="timm/x", file="dir/w.pth")),
        ("a.b:c", Source(function="a.b:c")),
        ("a:b.pth", Source(file="a:b.pth")),
        ("dir/w.pth", Source(file="dir/w.pth")),
    ],
)
def test_parts(weights, expected):
    assert Source.of(weights) == expected


@pytest.mark.parametrize("name", ["timm/x", "timm/x:w", "a.b:c"])
def test_an_existing_file_is_no_network(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "timm").mkdir()
    (tmp_path / name).touch()
    assert Source.of(name) == Source(file=name)


def test_a_word_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random").touch()
    assert Source.of("random").is_random


@pytest.mark.parametrize(
    ("weights", "rest"), [("timm/x:w.pth", "w.pth"), ("timm/x", "timm/x"), ("a:b", "own")]
)
def test_weights_without_their_network(weights, rest):
    assert Source.of(weights).without_network == rest


@pytest.mark.parametrize(
    ("weights", "network", "joined"),
    [
        ("w.pth", "timm/x", "timm/x:w.pth"),
        ("timm/x", "timm/x", "timm/x"),
        ("timm/x:w.pth", "timm/x", "timm/x:w.pth"),
        ("w.pth", "a:b", "w.pth"),
        ("w.pth", None, "w.pth"),
    ],
)
def test_a_file_of_timm_is_given_with_its_network(weights, network, joined):
    assert with_network(weights, network) == joined


class TestWholePath:
    @pytest.fixture(autouse=True)
    def run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "a_backbone.pth").touch()

    @pytest.mark.parametrize("weights", ["run", "run/a_backbone.pth"])
    def test_of_a_file(self, weights, tmp_path):
        assert whole_path(weights) == f"{tmp_path}/run/a_backbone.pth"

    def test_of_a_run_that_is_continued(self, tmp_path):
        (tmp_path / "run/run.json").write_text('{"starts": [{"ended": true}, {"ended": false}]}')
        with pytest.raises(ValueError, match=r"has not ended, so a_backbone.pth may be of an"):
            whole_path("run")
        assert whole_path("run/a_backbone.pth") == f"{tmp_path}/run/a_backbone.pth"
        (tmp_path / "run/a_backbone.pth").rename(tmp_path / "run/a_best_backbone.pth")
        assert whole_path("run") == f"{tmp_path}/run/a_best_backbone.pth"

    def test_of_a_file_of_timm(self, tmp_path):
        assert whole_path("timm/x:run") == f"timm/x:{tmp_path}/run/a_backbone.pth"

    @pytest.mark.parametrize("weights", ["random", "own", "timm/x", "a.b:c", "gone.pth"])
    def test_others_stay_as_they_are(self, weights):
        assert whole_path(weights) == weights


def test_words_are_left_out():
    assert without_words(["random", "a.pth", "supervised", "timm/x"]) == ["a.pth", "timm/x"]


class TestRandom:
    def test_next_to_a_function_is_refused(self):
        with pytest.raises(ValueError, match="'random' weights beside a.b:c would be those"):
            refuse_random(["random", "a.b:c"])

    @pytest.mark.parametrize("other", ["w.pth", "timm/x", "supervised"])
    def test_next_to_others_is_allowed(self, other):
        refuse_random([other, "random"])

    def test_a_function_without_it_is_allowed(self):
        refuse_random(["a.b:c", "w.pth"])


def test_what_a_parser_needs_imports_no_torch():
    code = (
        "import sys; from mmssprl.weights import TARGETS, Source; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
