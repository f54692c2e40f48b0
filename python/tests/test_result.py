"""What notebooks show of a result: its sentence, its fields, nested tables, and no markup of others."""

import html.parser
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lastbit._result import Result


@dataclass(frozen=True)
class Inner(Result):
    rate: float
    name: str

    def __str__(self) -> str:
        return f"{self.name} at {self.rate}"


@dataclass(frozen=True)
class Outer(Result):
    inner: Inner
    rows: list[dict[str, Any]]
    table: dict[str, Any]
    values: list[float]
    array: np.ndarray[Any, Any]
    missing: None = None
    large: list[int] = field(default_factory=lambda: list(range(100)), repr=False)

    def __str__(self) -> str:
        return "one <b>bold</b> word\nand a second line"


class Cells(html.parser.HTMLParser):
    """The texts of a page with the elements they stand in; refuses tags that are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, list[str], dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((data, [tag for tag, _ in self.open], self.open[-1][1]))

    def of(self, text: str) -> tuple[list[str], dict[str, str | None]]:
        return next((tags, attributes) for found, tags, attributes in self.texts if found == text)


def outer() -> Outer:
    return Outer(
        inner=Inner(0.123456789, "<script>alert(1)</script>"),
        rows=[{"step": i, "loss": i / 3} for i in range(20)],
        table={"<i>": True, "b": None},
        values=[float(i) for i in range(30)],
        array=np.zeros((40, 3)),
    )


def test_everything_is_escaped_and_well_formed():
    page = outer()._repr_html_()
    assert "<script>" not in page and "<b>" not in page and "<i>" not in page
    cells = Cells(page)
    assert cells.of("one <b>bold</b> word\nand a second line")[0] == ["pre"]
    assert cells.of("<script>alert(1)</script>") and cells.of("<i>")


def test_nested_results_and_rows_are_tables_and_numbers_stand_right():
    cells = Cells(outer()._repr_html_())
    tags, attributes = cells.of("0.123457")
    assert tags == ["table", "tr", "td", "table", "tr", "td"]
    assert "text-align: right" in (attributes["style"] or "")
    assert cells.of("loss")[0] == ["table", "tr", "td", "table", "tr", "th"]
    assert "text-align: right" in (cells.of("0.333333")[1]["style"] or "")
    assert "text-align: left" in (cells.of("True")[1]["style"] or "")


def test_what_is_long_is_cut_and_says_so():
    cells = Cells(outer()._repr_html_())
    texts = [text for text, _, _ in cells.texts]
    assert "… 12 more" in texts and "7" in texts and "9" not in texts
    assert "0, 1, 2, 3, 4, 5, 6, 7, … 22 more" in texts
    assert "array of shape (40, 3), float64" in texts and "–" in texts
    assert not any("99" in text for text in texts), "fields that the repr leaves out"


def test_a_dictionary_has_every_field_and_plain_values():
    found = outer().to_dict()
    assert list(found) == ["inner", "rows", "table", "values", "array", "missing", "large"]
    assert found["inner"] == {"rate": 0.123456789, "name": "<script>alert(1)</script>"}
