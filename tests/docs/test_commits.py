import re
import subprocess

import pytest
from helpers.docs.derived import read_rows
from helpers.docs.figures import RESULTS
from helpers.package.checkout import ROOT

COMMIT = re.compile(r"\b(?=[0-9]*[a-f])[0-9a-f]{7,8}\b|(?<=commit )[0-9a-f]{7,8}\b")


@pytest.fixture(scope="module")
def history():
    """All commits of the checkout's history, in one text."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.stdout.strip() != "false":
        pytest.skip("the history is not here: no git checkout, or a shallow one")
    asked = ["git", "-C", str(ROOT), "rev-list", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


def commits_of(folder):
    """Return the commits that the CSV files and pages of a folder of results name."""
    found = set()
    for path in folder.rglob("*.csv"):
        found |= {row["commit"].split()[0] for row in read_rows(path) if row.get("commit")}
    for path in folder.rglob("*.md"):
        found |= {*COMMIT.findall(path.read_text())}
    return found


def test_commits_of_results_are_in_the_history_or_said_not_to_be(history):
    folders = [path for path in sorted(RESULTS.iterdir()) if path.is_dir()]
    named = {folder: commits_of(folder) for folder in folders}
    assert len(set().union(*named.values())) >= 25
    for folder, commits in named.items():
        lost = {each for each in commits if not re.search(f"^{each}", history, re.MULTILINE)}
        page = folder / "README.md"
        text = page.read_text() if page.exists() else ""
        named_as_lost = "".join(
            part for part in text.split("\n\n") if "not in the repository's history" in part
        )
        missing = [commit for commit in sorted(lost) if commit not in named_as_lost]
        assert missing == [], f"{page}: say that these are not in the repository's history"
