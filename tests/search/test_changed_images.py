"""Kept embeddings know the images that they were made of, and are checked before they are used."""

import hashlib
import shutil
import tarfile

import numpy as np
import pytest
from helpers.features.probe_folders import write_image

import mmssprl
from mmssprl.cli import main
from mmssprl.features.extract import Images
from mmssprl.search import read_embeddings

CPU = {"device": "cpu", "progress": False}


@pytest.fixture
def damaged(photos):
    """The photographs, of which one cannot be read."""
    (photos / "a/0.jpg").write_text("no image")
    return photos


@pytest.fixture
def file(config, damaged, tmp_path):
    """Embeddings of the photographs."""
    path = tmp_path / "photos.npz"
    mmssprl.embed("random", damaged, config=config, **CPU).save(path)
    return path


@pytest.fixture
def search(config, file):
    def search(images):
        return mmssprl.neighbors("random", images, images, embeddings=file, config=config, **CPU)

    return search


def rewrite(path, **entries):
    """Write an .npz file with other entries; None takes one away."""
    with np.load(path) as file:
        kept = {**file, **entries}
    np.savez(path, **{key: value for key, value in kept.items() if value is not None})


def assert_identified(found, photos):
    """Each image has its size, times and digest, and the unreadable one is the last."""
    names = [*found.names, "a/0.jpg"]
    assert len(names) == 10
    for name, row in zip(names, found.identities, strict=True):
        status = (photos / name).stat()
        digest = hashlib.blake2b((photos / name).read_bytes(), digest_size=16).digest()
        assert row[:3].tolist() == [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        assert row[3:].tobytes() == digest


def test_a_file_identifies_its_images(photos, file):
    assert_identified(read_embeddings(file), photos)


def test_workers_identify_the_images_of_a_batch(config, damaged, monkeypatch):
    monkeypatch.setattr("mmssprl.features.extract._LEAST_FOR_WORKERS", 1)
    monkeypatch.setattr("mmssprl.features.extract.cores_of_run", lambda: 4)
    in_batches = mmssprl.embed("random", damaged, config=config, batch_size=3, **CPU)
    assert_identified(in_batches, damaged)


def test_images_that_were_replaced_under_their_names_are_refused(photos, search):
    for name in ("b c/5.jpg", "b c/7.jpg"):
        write_image(photos / name, ["red"], 99)
    match = (
        r"^embeddings must be of these images, but 2 of 10 have changed since `embed`, first "
        r".*/b c/5.jpg; run `embed` again\.$"
    )
    with pytest.raises(ValueError, match=match):
        search(photos)


def test_an_image_that_becomes_readable_is_a_change(photos, search):
    write_image(photos / "a/0.jpg", ["red"], 99)
    with pytest.raises(ValueError, match="1 of 10 have changed .*a/0.jpg"):
        search(photos)


def test_a_copied_folder_stays_valid(photos, search, tmp_path):
    wanted = [each.cosine for each in search(photos)]
    shutil.copytree(photos, tmp_path / "copied", copy_function=shutil.copyfile)
    assert [each.cosine for each in search(tmp_path / "copied")] == wanted


def test_unchanged_images_are_not_read_again(photos, search, monkeypatch):
    monkeypatch.setattr(Images, "read_bytes", None)
    assert search(photos)


@pytest.mark.parametrize("kind", ["tar", "list"])
def test_images_of_a_tar_file_or_of_a_list_are_checked(config, photos, tmp_path, kind):
    names = sorted(str(path) for path in photos.rglob("*.jpg"))[:4]
    images = tmp_path / "photos.tar"

    def pack():
        with tarfile.open(images, "w") as tar:
            for i, name in enumerate(names):
                tar.add(name, f"{i}.jpg")
        return images if kind == "tar" else names

    known = mmssprl.embed("random", pack(), config=config, **CPU)
    options = {"config": config, "embeddings": known, **CPU}
    assert mmssprl.neighbors("random", names[:1], pack(), **options)
    write_image(photos / "a/1.jpg", ["red"], 99)
    images_now = pack()
    with pytest.raises(ValueError, match=r"1 of 4 have changed .*1\.jpg; run"):
        mmssprl.neighbors("random", names[:1], images_now, **options)


def test_a_file_of_an_older_version_is_used_with_a_line(photos, search, file, capsys):
    wanted = search(photos)
    assert capsys.readouterr().out == ""
    rewrite(file, identities=None)
    write_image(photos / "b c/5.jpg", ["red"], 99)
    assert search(photos) == wanted
    assert capsys.readouterr().out == (
        "the embeddings do not note the content of their images, as in older versions: only names "
        "are compared. Run `embed` again to have the images checked.\n"
    )


def test_a_sheet_of_other_images_than_were_selected_is_refused(photos, file, tmp_path, capsys):
    write_image(photos / "b c/5.jpg", ["red"], 99)
    command = ["select", str(file), "--num", "2", "--out"]
    assert main([*command, str(tmp_path / "sheet.png")]) == 2
    assert "but 1 of 10 have changed since `embed`, first " in capsys.readouterr().err
    assert main([*command, str(tmp_path / "list.csv")]) == 0


@pytest.mark.parametrize("method", ["diverse", "typical", "outliers", "duplicates"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_row_that_is_not_finite_is_named_by_select(file, method, value):
    features = read_embeddings(file).features
    features[3, 1] = value
    rewrite(file, features=features)
    match = r"^features must be finite, but 1 of 9 rows are not \(first b c/4\.jpg\); run `em"
    with pytest.raises(ValueError, match=match):
        mmssprl.select(file, num=None if method == "duplicates" else 2, method=method)


def test_a_row_that_is_not_finite_is_named_by_neighbors(photos, file, search):
    features = read_embeddings(file).features
    features[[4, 6]] = np.inf
    rewrite(file, features=features)
    with pytest.raises(ValueError, match=r"2 of 9 rows are not \(first b c/5\.jpg\);"):
        search(photos)


def test_files_need_not_say_what_they_are_about(photos, file, search, capsys):
    wanted = search(photos)
    rewrite(file, about=None)
    assert search(photos) == wanted
    assert capsys.readouterr().out == (
        "the embeddings do not say weights_sha256, image_px, mean, std, which cannot be compared "
        "with the weights. Run `embed` again to have them checked.\n"
    )


def test_a_sheet_needs_to_know_the_folder_of_the_images(photos, file, tmp_path, capsys):
    rewrite(file, about=None)
    sheet = ["select", str(file), "--num", "2", "--out", str(tmp_path / "sheet.png")]
    assert main(sheet) == 2
    assert "photos.npz does not say where its images are; give --images" in capsys.readouterr().err
    assert main([*sheet, "--images", str(photos)]) == 0


def test_features_of_another_number_are_refused(config, photos, file):
    features = read_embeddings(file).features
    rewrite(file, about=None, features=features[:, :5])
    match = f"embeddings must have {features.shape[1]} features, as the weights give, but have 5;"
    with pytest.raises(ValueError, match=match):
        mmssprl.neighbors(
            "random", photos / "a/1.jpg", photos, embeddings=file, config=config, **CPU
        )
