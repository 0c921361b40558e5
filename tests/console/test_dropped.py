import pytest

from mmssprl.cli import main
from mmssprl.config.shipped import config_file
from mmssprl.console.dropped import answer
from mmssprl.errors import UserFileNotFoundError, UserValueError
from mmssprl.pretraining.methods import find_method


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("pretrain photos --dense", "leave it out"),
        ("pretrain photos --no-such-thing --dense", "is not an option"),
        ("diagnose run", "report RUN"),
        ("test config a.pth --verbose", "before the command"),
        ("--traceback probe random data", "--verbose"),
        ("export a.pth --to timm", "--to pth"),
        *((f"{name} --device gpu", "CUDA_VISIBLE_DEVICES=") for name in ("pretrain", "report")),
        ("pretrain photos --gpu 0", "CUDA_VISIBLE_DEVICES=0"),
        *((f"{name} --amp", "used on GPUs by default") for name in ("pretrain p", "finetune w")),
        ("pretrain photos --resume run/epoch_3.pth", "takes no path"),
        ("embed w p o.npz --image-px 224x224", "the side of a square: 224"),
        ("embed w p o.npz --image-px big", "must be an integer, but got 'big'"),
        ("pretrain photos --lr fast", "must be a number, but got 'fast'"),
        ("select e.npz --method dino", "one of diverse, typical, outliers, duplicates, but got"),
        ("finetune w d --task clasify", "segment, but got 'clasify'; did you mean classify?"),
    ],
)
def test_what_was_typed_before_is_answered_in_one_line(words, remedy, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    message = capsys.readouterr().err
    assert stop.value.code == 2
    assert remedy in message
    assert message.count("\n") == 1


def test_a_dropped_method_and_a_dropped_config_name_what_to_use():
    with pytest.raises(UserValueError, match="ssprl-shared was dropped: its code is at commit"):
        find_method("ssprl-shared")
    with pytest.raises(UserFileNotFoundError, match="--size"):
        config_file("configs/baselines/simsiam_resnet18_photos.py")


def test_what_is_offered_is_not_answered_as_dropped():
    assert answer("pretrain") is None
    assert answer("pretrain --seed") is None
