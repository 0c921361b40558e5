import re
import shutil
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
import yaml
from helpers.package.checkout import ROOT, build, copy_checkout
from mmengine.config import Config
from packaging.requirements import Requirement as PipRequirement
from packaging.utils import canonicalize_name

import mmssprl
from mmssprl import _dependencies

METAFILES = ["configs/ssprl/metafile.yml", "configs/baselines/metafile.yml"]


def names(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


def files_below(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name and not name.startswith(".mim")}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    return build(checkout, "build_wheel", tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_exactly_these_files(wheel):
    assert wheel.name == f"mmssprl-{mmssprl.__version__}-py3-none-any.whl"
    info = f"mmssprl-{mmssprl.__version__}.dist-info/"
    wanted = {f"mmssprl/{name}" for name in files_below(ROOT / "mmssprl")}
    for folder in ("mmssprl/.mim", "+mmssprl_mim"):
        for part in ("tools", "configs"):
            wanted |= {f"{folder}/{part}/{name}" for name in files_below(ROOT / part)}
        wanted |= {f"{folder}/model-index.yml"}
        assert {f"{folder}/{name}" for name in ("tools/train.py", *METAFILES)} <= wanted
    assert {name for name in names(wheel) if not name.startswith(info)} == wanted
    assert f"{info}licenses/LICENSE" in names(wheel)


def test_sdist_builds_the_same_wheel(checkout, wheel, tmp_path):
    sdist = build(checkout, "build_sdist", tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path)
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert not (unpacked / "mmssprl" / ".mim").exists(), "the originals are enough"
    assert names(build(unpacked, "build_wheel", tmp_path / "wheel")) == names(wheel)


@pytest.fixture(scope="module")
def editable(checkout, wheel, tmp_path_factory):
    """An editable install that was built twice, and the links for MIM after each."""
    mim = checkout / "mmssprl" / ".mim"
    mim.mkdir()
    (mim / "configs").symlink_to("../../configs")  # an earlier release's
    folder = tmp_path_factory.mktemp("editable")
    links = []
    for _ in range(2):
        archive = build(checkout, "build_editable", folder)
        found = [path for path in mim.rglob("*") if path.is_symlink()]
        links.append({str(path.relative_to(mim)): (path, path.readlink()) for path in found})
    return archive, links


def test_editable_install_links_for_mim(editable, checkout):
    for links in editable[1]:
        assert sorted(links) == [*sorted(METAFILES), "model-index.yml", "tools"]
        for name, (path, target) in links.items():
            assert not target.is_absolute()
            assert (path.parent / target).resolve() == (checkout / name).resolve()


def test_editable_install_is_the_path_of_the_checkout(editable, checkout):
    archive, _ = editable
    (path_file,) = (name for name in names(archive) if not name.startswith("mmssprl-"))
    assert zipfile.ZipFile(archive).read(path_file).decode().strip() == str(checkout)


def test_links_of_an_editable_install_enter_no_wheel(editable, checkout, wheel, tmp_path):
    assert names(build(checkout, "build_wheel", tmp_path)) == names(wheel)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def specs(lines) -> dict[str, PipRequirement]:
    return {canonicalize_name(req.name): req for req in map(PipRequirement, lines)}


def test_dependencies_have_no_package_of_openmmlab():
    required = specs(PROJECT["dependencies"])
    assert not {name for name in required if "mm" in name}
    assert specs(_dependencies.TORCH.values()).items() <= required.items()


@pytest.mark.parametrize("extra", _dependencies.FAMILIES)
def test_an_extra_is_a_family_in_the_ranges_of_the_gate(extra):
    family = _dependencies.FAMILIES[extra]
    required = [family[module] for module in _dependencies.REQUIRED]
    optional = [family[module] for module in _dependencies.OPTIONAL]
    found = PROJECT["optional-dependencies"]
    assert specs(found[extra]) == specs(required)
    assert specs(found[f"{extra}-transfer"]) == specs([f"mmssprl[{extra}]", *optional])


def pins(path: Path) -> dict[str, str]:
    """Versions that a requirements file pins, and the files that it includes."""
    pinned = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("-r "):
            pinned |= pins(path.parent / line[3:])
        elif "==" in line:
            requirement = PipRequirement(line)
            assert not requirement.marker, "every Python gets the tested set"
            assert requirement.name not in pinned
            [pinned[requirement.name]] = [each.version for each in requirement.specifier]
    return pinned


LITE = {name: _dependencies.OFFICIAL[name] for name in _dependencies.REQUIRED}
LITE |= {"mmcv": _dependencies.OFFICIAL_MMCV_LITE}


@pytest.mark.parametrize("base", ["requirements/pretrain.txt", "requirements/openmmlab.txt"])
def test_every_dependency_is_pinned(base):
    assert {"rich"} < specs(PROJECT["dependencies"]).keys() <= pins(ROOT / base).keys()


@pytest.mark.parametrize(
    ("name", "family"),
    [("requirements.txt", _dependencies.ONEDL), ("requirements/openmmlab.txt", LITE)],
)
def test_pins_lie_in_the_ranges_of_the_gate(name, family):
    pinned = pins(ROOT / name)
    for requirement in [*family.values(), *_dependencies.TORCH.values()]:
        assert _dependencies.fits(pinned[_dependencies.distribution(requirement)], requirement)


def test_the_locked_set_is_the_tested_one_with_a_hash_for_every_file():
    text = (ROOT / "requirements/locked.txt").read_text().replace(" \\\n    ", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    entry = re.compile(r"(\S+)==(\S+)( --hash=sha256:[0-9a-f]{64})+")
    locked = dict(entry.fullmatch(line).group(1, 2) for line in lines)
    assert len(locked) == len(lines)
    pinned = pins(ROOT / "requirements.txt")
    assert {name: locked[canonicalize_name(name)] for name in pinned} == pinned
    assert [name for name in locked if "opencv" in name] == ["opencv-python"], "one owner of cv2"


@pytest.mark.parametrize("path", METAFILES)
def test_model_index_lists_configs_that_exist(path):
    index = yaml.safe_load((ROOT / "model-index.yml").read_text())
    assert index["Import"] == METAFILES
    metafile = yaml.safe_load((ROOT / path).read_text())
    models = metafile["Models"]
    kinds = ["ssprl*_resnet50*", "ssprl_resnet18_scenes*", "[!s]*_*"]  # none that is supervised
    folder = (ROOT / path).parent
    files = chain.from_iterable(folder.glob(f"{kind}.py") for kind in kinds)
    known = {file.stem for file in files}
    known = {name for name in known if not re.match("ssprl-(pyramid-only|cross-only|shared)", name)}
    assert sorted(model["Name"] for model in models) == sorted(known)
    for model in models:
        assert Path(model["Config"]).stem == model["Name"]
        cfg = Config.fromfile(ROOT / model["Config"])
        assert model["Metadata"]["Epochs"] == cfg.train_cfg.max_epochs
        devices = int((re.search(r"_(\d+)xb", model["Name"]) or [0, 1])[1])
        assert model["Metadata"]["Batch Size"] == devices * cfg.train_dataloader.batch_size
        assert model["In Collection"] in [item["Name"] for item in metafile["Collections"]]
