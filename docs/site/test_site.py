"""The built site: every link leads somewhere, nothing is fetched from outside, and nothing is wider than its screen.

    python -m sphinx --fail-on-warning --jobs 2 -c docs/site docs target/site
    pytest docs/site

The tutorials are run while the site is built, so the build is their test.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(os.environ.get("LASTBIT_SITE", Path(__file__).parents[2] / "target" / "site"))
#: Attributes that name something the browser fetches when it shows a page; of links, only those of these kinds.
FETCHED = {"src", "srcset", "poster", "data", "background"}
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
WIDTHS = (1280, 390)


class Page(HTMLParser):
    """Anchors of a page, links to other pages, and what it fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.fetched += [values[name] for name in FETCHED if name in values]
        self.fetched += re.findall(r"url\(\s*['\"]?([^'\")]+)", values.get("style", ""))
        if "href" in values:
            is_fetched = tag == "link" and FETCHED_LINKS & set(values.get("rel", "").split())
            (self.fetched if is_fetched else self.links).append(values["href"])

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.fetched += fetched_by_css(data)


def fetched_by_css(text: str) -> list[str]:
    return re.findall(r"(?:url\(\s*|@import\s+)['\"]?([^'\")\s;]+)", text)


def is_foreign(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https")


@cache
def page(path: Path) -> Page:
    return Page(path)


def pages() -> list[Path]:
    found = sorted(SITE.rglob("*.html"))
    assert found, f"found no page in {SITE}, expected the site; the module's text says how to build it"
    return found


def broken(path: Path) -> Iterator[str]:
    for link in page(path).links + page(path).fetched:
        parts = urlsplit(link)
        if parts.scheme or link.startswith("//"):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"{path.relative_to(SITE)} -> {link}: no such file"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).anchors:
            yield f"{path.relative_to(SITE)} -> {link}: no such place"


def test_links_lead_to_files_and_places() -> None:
    assert [one for path in pages() for one in broken(path)] == []


def test_no_page_or_style_sheet_names_a_foreign_asset() -> None:
    of_pages = [(path.name, one) for path in pages() for one in page(path).fetched]
    sheets = {sheet.name: sheet.read_text(encoding="utf-8") for sheet in SITE.rglob("*.css")}
    of_sheets = [(name, one) for name, text in sheets.items() for one in fetched_by_css(text)]
    assert len(of_pages) > len(pages()) and sheets
    assert [one for one in of_pages + of_sheets if is_foreign(one[1])] == []


def test_every_public_name_has_a_place() -> None:
    modules = sorted(path.stem for path in (SITE / "reference").glob("lastbit*.html"))
    anchors = set().union(*(page(SITE / "reference" / f"{module}.html").anchors for module in modules))
    loaded = {module: importlib.import_module(module) for module in modules}
    names = [f"{name}.{one}" for name, module in loaded.items() for one in module.__all__ if callable(getattr(module, one))]
    assert "lastbit.torch" in modules
    missing = [name for name in names if name not in anchors]
    assert missing == [], "add them to docs/reference/MODULE.md"


def test_every_module_has_a_page() -> None:
    from extensions.public_names import public_modules

    expected = {module.__name__ for module in public_modules()}
    assert {path.stem for path in (SITE / "reference").glob("lastbit*.html")} == expected


@pytest.mark.parametrize("source", sorted((Path(__file__).parents[1] / "tutorials").glob("*.md")), ids=lambda path: path.stem)
def test_tutorial_has_a_notebook_with_its_results(source: Path) -> None:
    links = [link for link in page(SITE / "tutorials" / f"{source.stem}.html").links if link.endswith(".ipynb")]
    assert len(links) == 1
    notebook = json.loads((SITE / "tutorials" / links[0]).resolve().read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == source.read_text(encoding="utf-8").count("```{code-cell}")
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    figures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert len(figures) >= 2


CONTROL = "https://control.invalid/"
MEASURE = """<!DOCTYPE html><meta charset="utf-8"><title>measuring</title><body><pre id="found"></pre><script>
const found = [];
async function measure(path, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 800px`;
  frame.src = path;
  document.body.append(frame);
  const isThere = () => frame.contentWindow.location.href === path && frame.contentDocument.readyState === "complete";
  while (!isThere()) await new Promise(done => setTimeout(done, 10));
  await frame.contentWindow.fetch("CONTROL").catch(() => {});
  const root = frame.contentDocument.documentElement;
  const loaded = frame.contentWindow.performance.getEntriesByType("resource").map(one => one.name);
  found.push({path, width, scroll: root.scrollWidth, loaded, text: root.innerText.length});
  frame.remove();
}
(async () => {
  for (const [path, width] of PAGES) await measure(path, width);
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


def test_pages_in_a_browser(tmp_path: Path) -> None:
    """Each page, as wide as a laptop and a telephone: nothing sticks out, and all that was loaded lies beside it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("LASTBIT_REQUIRE_CHROMIUM"):
            pytest.fail("found no chromium, expected one, since LASTBIT_REQUIRE_CHROMIUM is set")
        pytest.skip("found no chromium")
    wanted = [(path.as_uri(), width) for path in pages() for width in WIDTHS]
    measuring = tmp_path / "measure.html"
    measuring.write_text(MEASURE.replace("CONTROL", CONTROL).replace("PAGES", json.dumps(wanted)), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={tmp_path}"]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    called = [chromium, *flags, offline, "--virtual-time-budget=100000", "--dump-dom", measuring.as_uri()]
    dom = subprocess.run(called, capture_output=True, text=True, check=True, timeout=300).stdout
    shown = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert shown and shown.group(1), dom[-2000:]
    found = json.loads(shown.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert len(found) == len(wanted)
    # One address from outside is the test's own, so that the browser is known to tell them.
    assert all(CONTROL in one["loaded"] for one in found)
    assert {name for one in found for name in one["loaded"] if not name.startswith(("file:", "data:"))} == {CONTROL}
    # A page that scrolls sideways has something that sticks out.
    too_wide = [(one["path"], one["width"], one["scroll"]) for one in found if one["scroll"] > one["width"]]
    assert too_wide == []
