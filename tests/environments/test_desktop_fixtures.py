"""What programs find and leave on the desktop, without starting one."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from assets.environments.desktop import TaskSpec, leaks, load_programs
from assets.environments.desktop.display import Display
from assets.environments.desktop.fixtures import TIME, Fixture, fingerprint, lay_out, misplaced
from assets.environments.desktop.outcomes import Reader, prints
from assets.environments.desktop.programs import load_program
from assets.environments.session import check
from assets.environments.task import TaskContract
from assets.errors import ParameterError


class Screen:
    """Stands in for a display where only its windows and its clipboard are read."""

    def titles(self) -> list[str]:
        return ["plan.txt - Mousepad", "Save As"]

    def clipboard(self) -> str | None:
        return "408"


def spec(**fields: Any) -> TaskSpec:
    return TaskSpec.model_validate_json(json.dumps(fields))


def read(home: Path, **reader: Any) -> Any:
    model: Any = TypeAdapter(Reader).validate_python(reader)
    return model.read(home, cast(Display, Screen()))


def task(**fields: Any) -> TaskContract:
    return TaskContract("t", "desktop", "gnumeric", "en", **{"instruction": "Do it", **fields})


FILES = {
    "a.txt": {"text": "one\r\ntwo\n"},
    "raw.bin": {"base64": "AAEC"},
    "red.png": {"picture": {"size": [6, 4], "colour": "#ff0000", "boxes": [[2, 1, 4, 3, "#00ff00"]]}},
    "s.gnumeric": {"sheet": [["Name", "n"], ["<b> & co", 3], [None, 2.5], ["x", "=B2+1"]]},
    "s.csv": {"sheet": [["Name", "n"], ['say "hi", you', 3]]},
    "z.zip": {"archive": {"b/c.txt": "see", "a.txt": "ay"}},
    "t.tar": {"archive": {"b/c.txt": "see"}},
    "t.tar.gz": {"archive": {"b/c.txt": "see"}},
    "box/1": {"mail": {"sender": "a@x.org", "to": "b@x.org", "subject": "Hallo 你好", "body": "Noon?"}},
    "empty": {"folder": True},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lay_out(
        spec(files=FILES, settings={".config/k": {"": {"top": "1"}, "view/x": {"on": "true", "name": "'a=b'"}}}),
        tmp_path,
    )
    return tmp_path


def test_files_are_the_same_bytes_and_age_every_time(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    lay_out(spec(files=FILES), other)
    assert prints(home) == prints(other)
    assert {path.stat().st_mtime for path in home.rglob("*")} == {TIME}
    assert misplaced(spec(files=FILES), home) == []
    (home / "a.txt").write_text("three")
    (home / "empty").rmdir()
    assert misplaced(spec(files={**FILES, "raw.bin": None}), home) == ["a.txt", "empty", "raw.bin"]


def test_readers_find_what_fixtures_put_there(home: Path) -> None:
    assert read(home, kind="text", path="a.txt") == "one\ntwo\n"
    assert read(home, kind="bytes", path="raw.bin")["size"] == 3
    assert read(home, kind="exists", path="empty") is True
    assert read(home, kind="folder", path="box") == ["1"]
    assert read(home, kind="image", path="red.png") == [6, 4]
    assert read(home, kind="image", path="red.png", at=[0, 0]) == "#ff0000"
    assert read(home, kind="image", path="red.png", at=[3, 2]) == "#00ff00"
    assert read(home, kind="image", path="red.png", at=[9, 9]) is None
    cells = {
        cell: read(home, kind="cell", path="s.gnumeric", cell=cell) for cell in ("A2", "B2", "A3", "B3", "B4", "Z9")
    }
    assert cells == {"A2": "<b> & co", "B2": 3, "A3": None, "B3": 2.5, "B4": "=B2+1", "Z9": None}
    assert read(home, kind="cell", path="s.gnumeric", cell="B2", sheet="Sheet1") == 3
    assert read(home, kind="cell", path="s.gnumeric", cell="B2", sheet="Other") is None
    assert read(home, kind="cell", path="s.csv", cell="A2") == 'say "hi", you'
    assert read(home, kind="cell", path="s.csv", cell="B2") == 3
    assert read(home, kind="archive", path="z.zip") == ["a.txt", "b/c.txt"]
    for archive in ("z.zip", "t.tar", "t.tar.gz"):
        assert read(home, kind="archive", path=archive, member="b/c.txt") == "see"
    assert read(home, kind="archive", path="z.zip", member="none") is None
    assert read(home, kind="setting", path=".config/k", section="", key="top") == "1"
    assert read(home, kind="setting", path=".config/k", section="view/x", key="name") == "'a=b'"
    assert read(home, kind="setting", path=".config/k", section="view/x", key="top") is None
    assert read(home, kind="messages", path="box") == [{"to": "b@x.org", "subject": "Hallo 你好", "body": "Noon?"}]
    assert read(home, kind="window", title=r"^plan\.txt") is True
    assert read(home, kind="window", title="paint") is False
    assert read(home, kind="clipboard") == "408"


@pytest.mark.parametrize(
    "reader",
    [
        {"kind": "text"},
        {"kind": "bytes"},
        {"kind": "folder"},
        {"kind": "image"},
        {"kind": "archive"},
        {"kind": "messages"},
        {"kind": "cell", "cell": "A1"},
        {"kind": "setting", "section": "a", "key": "b"},
    ],
)
@pytest.mark.parametrize("path", ["missing", "link", "broken.gnumeric", "broken.zip", "broken.png", "folder"])
def test_readers_give_null_for_what_is_missing_broken_or_elsewhere(
    tmp_path: Path, reader: dict[str, Any], path: str
) -> None:
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "broken.gnumeric").write_bytes(gzip.compress(b"<gnm:Workbook")[:-3])
    (home / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    (home / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    found = read(home, path=path, **reader)
    if (reader["kind"], path) in {("text", "broken.zip"), ("text", "broken.png"), ("text", "broken.gnumeric")}:
        assert isinstance(found, str)
    elif reader["kind"] == "bytes" and path.startswith("broken"):
        assert found["size"] > 0
    else:
        assert found in (None, [])


def test_one_setup_has_one_fingerprint() -> None:
    one = spec(
        files={"a.csv": {"sheet": [["x", 1]]}, "b.txt": {"text": "é"}}, settings={"k": {"s": {"a": "1", "b": "2"}}}
    )
    same = spec(
        settings={"k": {"s": {"b": "2", "a": "1"}, "unused": {}}},
        files={"b.txt": {"base64": "w6k="}, "a.csv": {"text": "x,1\n"}, "gone.txt": None},
        read={"later": {"kind": "clipboard"}},
    )
    command = ("gnumeric",)
    print_of_one = fingerprint("gnumeric", command, one)
    assert len(print_of_one) == 64
    assert fingerprint("gnumeric", command, same) == print_of_one
    others = [
        spec(files={"a.csv": {"sheet": [["x", 2]]}, "b.txt": {"text": "é"}}, settings=one.settings),
        spec(settings={"k": {"s": {"a": "3"}}}).over(one),
        spec(setup=[{"type": "x"}]).over(one),
        spec(arguments=["b.txt"]).over(one),
        spec(files={"c": {"folder": True}}).over(one),
    ]
    prints_of_others = {fingerprint("gnumeric", command, other) for other in others}
    assert len(prints_of_others) == len(others)
    assert print_of_one not in prints_of_others
    assert len({program.fingerprint() for program in load_programs()}) == len(load_programs())


def test_leaks_are_found() -> None:
    sheet = {"files": {"sales.gnumeric": {"sheet": [["n"], [120], [95]]}, "hint.txt": {"text": "The sum is 215."}}}
    total = task(expected_state={"answer": "215"}, instruction="What do the numbers add up to?")
    assert leaks(total, spec(**sheet)) == ["hint.txt"]
    assert leaks(total, spec(**sheet, shown=["hint.txt"])) == []
    said = task(expected_state={"answer": "215"}, instruction="Answer 215")
    assert leaks(said, spec(**sheet, shown=["hint.txt"])) == ["instruction"]
    entered = task(expected_state={"read.b5": 215}, instruction="Enter 215 in B5")
    assert leaks(entered, spec(**sheet)) == []
    hidden = task(expected_state={"read.a": [{"subject": "Lunch at noon"}], "read.b": True, "read.c": 7})
    assert leaks(hidden, spec(files={"Lunch at noon.txt": {"text": "x7"}})) == ["Lunch at noon.txt"]
    zipped = spec(files={"gold.zip": {"archive": {"answer.txt": "Lunch at noon"}}})
    assert leaks(hidden, zipped) == ["gold.zip"]


def test_a_task_lies_over_the_program(tmp_path: Path) -> None:
    below = spec(
        files={"a": {"text": "1"}, "b": {"text": "2"}}, settings={"k": {"s": {"x": "1", "y": "2"}}}, window="A"
    )
    above = spec(files={"a": {"text": "3"}, "b": None}, settings={"k": {"s": {"y": "3"}, "t": {"z": "4"}}})
    lay_out(above.over(below), tmp_path)
    assert (tmp_path / "a").read_text() == "3"
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "k").read_text() == "[s]\nx=1\ny=3\n[t]\nz=4\n"
    assert above.over(below).window == "A"


def test_states_can_be_checked_by_path(tmp_path: Path) -> None:
    """Names of files hold dots, which separate the keys of a state."""
    lay_out(spec(files={"Documents/50%.txt": {"text": "x"}, "Documents/b": {"folder": True}}), tmp_path)
    before = {"files": prints(tmp_path)}
    assert list(before["files"]) == ["Documents/50%25%2Etxt", "Documents/b"]
    (tmp_path / "Documents" / "50%.txt").write_text("y")
    (tmp_path / "Documents" / ".hidden").write_text("z")
    after = {"files": prints(tmp_path)}
    changed = task(expected_state={"files.Documents/50%25%2Etxt": after["files"]["Documents/50%25%2Etxt"]})
    assert check(changed, before, after).success
    assert check(task(), before, after).side_effects == ("files.Documents/50%25%2Etxt",)


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ("files: {a.txt: {txt: hello}}", r"bad\.yaml: files\.a\.txt\.txt: Extra inputs are not permitted"),
        (
            "files: {a.txt: {text: a, base64: YQ==}}",
            r"files\.a\.txt: a file is given by one of text, base64",
        ),
        ("files: {/etc/passwd: {text: a}}", r"'/etc/passwd' is not a path below the home folder"),
        ("files: {a.rar: {archive: {b: c}}}", r"a\.rar: an archive ends with \.zip, \.tar or \.tar\.gz"),
        ("files: {a.ods: {sheet: [[1]]}}", r"a\.ods: a sheet ends with \.gnumeric or \.csv"),
        ("window: '('", r"window: '\(' is no regular expression"),
        ("read: {a.b: {kind: clipboard}}", r"read\.a\.b"),
        ("read: {a: {kind: color}}", r"read\.a: Input tag 'color' found using 'kind' does not match"),
        ("command: []", r"command: Tuple should have at least 1 item"),
        ("split: [", r"bad\.yaml: while parsing"),
        ("files: {a: {text: a}, a: {text: b}}", r"bad\.yaml: 'files\.a' is given twice, in lines 9 and 9"),
    ],
)
def test_a_broken_spec_names_file_place_and_trouble(tmp_path: Path, change: str, trouble: str) -> None:
    good = (
        "id: good\ntitle: Good\nlocale: en\nsplit: train\ncategory: editor\npackage: good\n"
        "command: [good]\nwindow: Good\n"
    )
    file = tmp_path / "bad.yaml"
    file.write_text(good)
    assert load_program(file).id == "good"
    key = change.partition(":")[0]
    kept = [line for line in good.splitlines() if not line.startswith(f"{key}:")]
    file.write_text("\n".join([*kept, change]) + "\n")
    with pytest.raises(ParameterError, match=trouble):
        load_program(file)


def test_archives_open_with_other_programs() -> None:
    with zipfile.ZipFile(io.BytesIO(Fixture(archive={"a": "1"}).content("a.zip"))) as archive:
        assert archive.testzip() is None
    with tarfile.open(fileobj=io.BytesIO(Fixture(archive={"a": "1"}).content("a.tar.gz"))) as tar:
        assert tar.getnames() == ["a"]


def test_a_fixture_is_one_thing() -> None:
    with pytest.raises(ValidationError, match="here: none"):
        Fixture()


def test_every_program_is_installed_by_the_installer() -> None:
    installer = (Path(__file__).parents[2] / "infra" / "install.sh").read_text(encoding="utf-8")
    for program in load_programs():
        assert f" {program.program}:{program.package}" in installer, program.id
