import shutil

import pytest
from probe_folders import write_class_folders, write_image

from mmssprl.datasets.labels import find_labels
from mmssprl.features import find_probe_data as find


@pytest.fixture
def flowers(tmp_path):
    return write_class_folders(tmp_path / "flowers")


def names(split, root):
    return [path.removeprefix(f"{root}/") for path in split.paths]


class TestOneFolderPerClass:
    def test_a_fifth_of_each_class_is_tested_on_and_nothing_is_lost(self, flowers):
        data = find(flowers)
        assert (data.labelled.layout, data.classes) == ("a folder per class", ["green", "red"])
        assert data.labelled.split == "20% of each class of 20 images held out, seed 0"
        train, test = names(data.train, flowers), names(data.test, flowers)
        assert not set(train) & set(test)
        wanted = [f"{name}/{i}.jpg" for name in ("green", "red") for i in (0, 2, 4, 6, 8)]
        wanted += [f"{name}/more/{i}.jpg" for name in ("green", "red") for i in (1, 3, 5, 7, 9)]
        assert sorted(train + test) == sorted(wanted)
        assert data.test.labels.tolist() == [[1, 0]] * 2 + [[0, 1]] * 2
        assert [path.split("/")[0] for path in test] == ["green"] * 2 + ["red"] * 2
        assert data.train.labels.sum(dim=0).tolist() == [8, 8]

    def test_the_draw_follows_the_seed(self, flowers):
        assert find(flowers).test.paths == find(flowers).test.paths
        draws = {tuple(find(flowers, seed=seed).test.paths) for seed in range(5)}
        assert len(draws) > 1

    def test_two_images_are_enough_and_one_is_not(self, tmp_path):
        root = write_class_folders(tmp_path / "a", count=2)
        data = find(root)
        assert (len(data.train.paths), len(data.test.paths)) == (2, 2)
        (root / "red" / "0.jpg").unlink()
        with pytest.raises(ValueError, match=r"fit and to test on, but of 'red' in .* 1 and 0 are"):
            find(root)

    def test_what_is_no_class(self, flowers):
        (flowers / "empty").mkdir()
        assert find(flowers).classes == ["green", "red"]
        write_image(flowers / "loose.jpg", [], 0)
        with pytest.raises(ValueError, match=r"1 lie beside the 2 folders, for example loose.jpg"):
            find(flowers)
        (flowers / "loose.jpg").unlink()
        shutil.rmtree(flowers / "red")
        with pytest.raises(FileNotFoundError, match="per class; but .* holds none"):
            find(flowers)

    def test_the_probe_tests_on_the_images_that_finetune_validates_with(self, flowers):
        split = find_labels(flowers, "classify", seed=3)
        assert find(flowers, seed=3).test.paths == [image.path for image in split.val]


class TestFoldersTrainAndVal:
    @pytest.fixture
    def split(self, tmp_path):
        root = tmp_path / "split"
        write_class_folders(root / "train", count=4)
        write_class_folders(root / "val", count=2)
        return root

    def test_are_taken_as_they_are(self, split):
        data = find(split)
        assert data.labelled.split == "the data's own train and val"
        assert names(data.test, split) == [
            f"val/{name}/{image}" for name in data.classes for image in ("0.jpg", "more/1.jpg")
        ]
        assert data.train.labels.sum(dim=0).tolist() == [4, 4]

    @pytest.mark.parametrize(
        ("train", "val"), [("training", "validation"), ("Train", "valid"), ("train", "test")]
    )
    def test_may_have_other_names_and_are_no_classes(self, split, train, val):
        (split / "train").rename(split / train)
        (split / "val").rename(split / val)
        data = find(split)
        assert (
            data.labelled.split == f"the data's own train and {'test' if val == 'test' else 'val'}"
        )
        assert data.classes == ["green", "red"]
        assert (len(data.train.paths), len(data.test.paths)) == (8, 4)

    def test_of_several_the_first_is_tested_on(self, split):
        write_class_folders(split / "test", count=3)
        assert (
            find(split).labelled.split
            == "the data's own train and val; 6 other images are not used"
        )

    def test_of_one_name_count_together(self, split):
        write_class_folders(split / "training", count=3)
        assert len(find(split).train.paths) == 14

    def test_must_both_show_each_class(self, split):
        (split / "val" / "red").rename(split / "val" / "crimson")
        with pytest.raises(ValueError, match=r"but of 'crimson' in .* 0 and 2 are left"):
            find(split)

    def test_one_alone_is_divided_if_it_is_for_training(self, split):
        shutil.rmtree(split / "val")
        assert find(split).labelled.split == "20% of each class of 8 images held out, seed 0"
        (split / "train").rename(split / "val")
        with pytest.raises(ValueError, match="all are of the split val"):
            find(split)
