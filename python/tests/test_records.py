"""``lastbit.run``, ``report`` and ``verify``: the command's answers and bytes, damaged records."""

from pathlib import Path

import pytest

import lastbit


def test_the_report_is_that_of_the_command(tmp_path, command):
    first = lastbit.pde.heat(steps=100, out=tmp_path / "records")
    lastbit.pde.beltrami(steps=100, out=tmp_path / "records")
    written = lastbit.report(tmp_path / "records")
    page = written.read_bytes()
    assert written == tmp_path / "records/report.html"
    told = command("report", "--out", "records")
    assert Path(told["report"]).name == "report.html" and [row["id"] for row in told["records"]] == ["pde-beltrami", "pde-heat"]
    assert written.read_bytes() == page
    elsewhere = lastbit.report(tmp_path / "records", out=tmp_path / "mine.html")
    assert elsewhere == tmp_path / "mine.html" and elsewhere.read_bytes() == page
    assert first.hash in page.decode()


def test_a_damaged_record_is_not_shown_and_a_warning_says_so(tmp_path):
    run = lastbit.pde.heat(steps=100, out=tmp_path)
    assert run.folder is not None
    text = (run.folder / "record.json").read_text()
    (run.folder / "record.json").write_text(text.replace("pde-heat", "pde-hoax"))
    with pytest.warns(UserWarning, match="not shown: .*record.json: damaged"):
        written = lastbit.report(tmp_path)
    assert run.hash not in written.read_text()


def test_a_folder_without_records_is_refused(tmp_path, config):
    with pytest.raises(lastbit.InputError, match="found no record, expected at least one"):
        lastbit.report(tmp_path)
    with pytest.raises(lastbit.InputError, match="found no record"):
        lastbit.report(tmp_path / "missing")
    lastbit.train(config, out=tmp_path / "run", progress=False)
    assert lastbit.report(tmp_path / "run").exists()


def test_an_exhibit_is_that_of_the_command(tmp_path, command):
    told = command("run", "fig-heat", "--scale", "smoke", "--out", "told")["records"][0]
    (heat,) = lastbit.run(["fig-heat", "fig-heat"], scale="smoke", out=tmp_path / "own", progress=False)
    assert (heat.id, heat.status, heat.scale, heat.checks) == ("fig-heat", "holds", "smoke", told["checks"])
    assert heat.figures and all(path.exists() for path in heat.figures)
    assert {path.suffix for path in heat.figures} == {".svg", ".png"}
    assert "holds" in str(heat) and heat.title in str(heat)
    # What is there is not computed again.
    written = (heat.folder / "cells").stat().st_mtime_ns
    assert lastbit.run("fig-heat", scale="smoke", out=tmp_path / "own", progress=False) == [heat]
    assert (heat.folder / "cells").stat().st_mtime_ns == written
    for arguments, message in [
        ({"exhibits": "fig-heet"}, "fig-heet: no such exhibit; did you mean fig-heat?"),
        ({"exhibits": "fig-heat", "scale": "huge"}, "scale: found huge, expected one of smoke, desk, paper"),
    ]:
        with pytest.raises(lastbit.InputError) as refused:
            lastbit.run(out=tmp_path, **arguments)
        assert message in str(refused.value)


def test_a_damaged_file_is_found(tmp_path, command):
    run = lastbit.pde.heat(steps=100, out=tmp_path / "records")
    whole = lastbit.verify(tmp_path / "records")
    assert whole.to_dict() == command("verify", "records")
    assert (whole.records, whole.cells, whole.damaged) == (1, 1, [])
    assert run.folder is not None
    curve = next((run.folder / "series").iterdir())
    curve.write_text(curve.read_text().replace("1", "2", 1))
    found = lastbit.verify(tmp_path / "records", progress=False)
    (damaged,) = found.damaged
    assert Path(damaged["path"]) == curve and str(curve) in str(found)
    (tmp_path / "empty").mkdir()
    with pytest.raises(lastbit.InputError, match="empty: found no record, expected at least one"):
        lastbit.verify(tmp_path / "empty")
