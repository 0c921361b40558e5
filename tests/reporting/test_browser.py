import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium or google-chrome")
def test_a_browser_shows_all_of_it(trained, tmp_path):
    url = (trained[0] / "report.html").as_uri()
    command = [CHROMIUM, "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}"]
    size = ["--window-size=1200,6000", "--hide-scrollbars"]
    screenshot = [f"--screenshot={tmp_path / 'page.png'}", *size]
    subprocess.run([*command, *screenshot, url], check=True, capture_output=True, timeout=120)
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("L"), np.float32)
    assert pixels.shape == (6000, 1200)
    # Of six parts of the page none is blank.
    assert min(part.std() for part in np.split(pixels, 6)) > 10
    dom, told = look(command, url)
    assert "Content Security Policy" not in told
    titles = ("Recipe", "Curves", "Health", "Views", "Nearest photographs", "Prototypes")
    for title in (*titles, "Time and memory", "Next commands"):
        assert f"<h2>{title}</h2>" in dom
    # What somebody adds to the page neither runs nor is fetched.
    page = (trained[0] / "report.html").read_text()
    added = "<script>document.title = 'it ran'</script><img src='https://localhost/x.png'>"
    (tmp_path / "changed.html").write_text(page.replace("</body>", f"{added}</body>"))
    dom, told = look(command, (tmp_path / "changed.html").as_uri())
    assert told.count("Content Security Policy") == 2
    assert "<title>it ran" not in dom


def look(command, url):
    """The page's elements as text, and what the browser has told about it."""
    command = [*command, "--enable-logging=stderr", "--dump-dom", url]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return found.stdout, found.stderr
