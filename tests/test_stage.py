"""The contract of a stage: parameters, inputs, atomic output, resume, stable bytes."""

from __future__ import annotations

import errno
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from assets.errors import InputError, ParameterError, StorageError
from assets.stage import (
    Stage,
    StageParameters,
    directory_id,
    execute,
    find_stage,
    input_ids,
    load_section,
    load_yaml,
    project_root,
    validate_section,
    write_parquet,
)

DVC = """
stages:
  plain:
    cmd: python -m assets plain
    deps: [assets/stage.py, data/in]
    params: [seed, plain]
    outs: [data/plain: {persist: true}]
  split:
    matrix: {colour: [red, blue]}
    cmd: python -m assets split --partition ${item.colour}
    deps: [data/plain]
    params: [split]
    outs: ["models/split/${item.colour}": {persist: true}]
"""


class Sizes(StageParameters):
    train: int = 3


class Parameters(StageParameters):
    rows: int = 2
    sizes: Sizes = Sizes()


class FakeModule:
    """Stands for the module of a stage."""

    Parameters = Parameters
    calls = 0

    @staticmethod
    def run(stage: Stage[Parameters]) -> None:
        (stage.output / "x.txt").write_text("x" * stage.parameters.rows)
        stage.summary(rows=stage.parameters.rows)
        stage.metric("loss", 0.25, 3)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose stages all are `FakeModule`."""
    (tmp_path / "assets" / "link").mkdir(parents=True)
    (tmp_path / "assets" / "stage.py").touch()
    for name in ("plain", "split"):
        (tmp_path / "assets" / "link" / f"{name}.py").touch()
    (tmp_path / "dvc.yaml").write_text(DVC)
    (tmp_path / "params.yaml").write_text("seed: 1\nplain: {rows: 2}\nsplit: {}\n")
    (tmp_path / "data" / "in").mkdir(parents=True)
    (tmp_path / "data" / "in" / "a").write_text("a")
    monkeypatch.setenv("HESPER_TRACKING", "off")
    monkeypatch.setattr("assets.stage.importlib.import_module", lambda name: FakeModule)
    return tmp_path


def test_a_wrong_parameter_names_the_right_one(tmp_path: Path) -> None:
    def message(text: str) -> str:
        (tmp_path / "params.yaml").write_text(text)
        with pytest.raises(ParameterError) as caught:
            load_section(tmp_path / "params.yaml", "plain", Parameters)
        return str(caught.value)

    assert message("plain: {rowz: 1}") == "params.yaml: plain.rowz: no such parameter; did you mean 'rows'?"
    wrong = message("plain: {sizes: {trian: 1}}").splitlines()
    assert "plain.sizes.trian: no such parameter; did you mean 'train'?" in wrong[0]  # before what it leaves missing
    assert "plain.rows: " in message("plain: {rows: many}")
    assert "section 'plain' is missing; did you mean 'plane'?" in message("plane: {}")
    assert "must hold a mapping" in message("- 1")
    assert "not valid YAML" in message("plain: [")
    two = message("plain: {rows: many, colour: 1}")
    assert len(two.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plain:\n  rows: 2\n  sizes: {}\n  rows: 9", "'plain.rows' is given twice, in lines 2 and 4"),
        ("plain: {rows: 2}\nsplit: {}\nplain: {rows: 9}", "'plain' is given twice, in lines 1 and 3"),
        ("plain: {list: [{a: 1}, {a: 1,\n 'a': 1}]}", "'plain.list[1].a' is given twice, in lines 1 and 2"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_the_lines_of_both(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParameterError, match=re.escape(f"params.yaml is not valid YAML: {message}")):
        load_yaml(tmp_path / "params.yaml")


def test_a_key_may_take_the_place_of_one_that_is_merged_in(tmp_path: Path) -> None:
    text = "deep: {below: &small {<<: {rows: 1, sizes: {}}, rows: 2}}\nplain:\n  <<: *small\n  rows: 9"
    (tmp_path / "params.yaml").write_text(text)
    assert load_yaml(tmp_path / "params.yaml")["plain"] == {"rows": 9, "sizes": {}}


def test_parameters_can_not_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        validate_section({}, "plain", Parameters, "here").rows = 3


def test_stages_resolve_with_their_partition(root: Path) -> None:
    assert find_stage(root, "split", "red").output == "models/split/red"
    assert find_stage(root, "split", "red").address == "split@red"
    assert find_stage(root, "plain", None).data == ("data/in",)
    for name, partition, message in (
        ("split", None, "needs --partition, one of: red, blue"),
        ("split", "green", "needs --partition"),
        ("plain", "red", "has no partitions"),
        ("plane", None, "did you mean 'plain'"),
    ):
        with pytest.raises(ParameterError, match=message):
            find_stage(root, name, partition)
    (root / "assets" / "link" / "plain.py").unlink()
    with pytest.raises(ParameterError, match="needs exactly one file"):
        find_stage(root, "plain", None)
    assert project_root(root / "assets" / "link") == root


def test_an_output_is_complete_or_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = root / "data" / "plain"
    identity = execute("plain", root=root)
    assert directory_id(output) == identity
    assert sorted(path.name for path in output.iterdir()) == ["curves.csv", "metrics.json", "x.txt"]
    assert json.loads((output / "metrics.json").read_text()) == {"rows": 2.0}
    assert (output / "curves.csv").read_text() == "step,loss\n3,0.25\n"

    def fail(stage: Stage[Parameters]) -> None:
        (stage.output / "half").touch()
        raise RuntimeError("on the way")

    monkeypatch.setattr(FakeModule, "run", staticmethod(fail))
    with pytest.raises(RuntimeError):
        execute("plain", root=root)
    assert directory_id(output) == identity
    assert not output.with_name("plain.partial").exists()


def test_what_a_kill_between_two_renames_leaves_is_mended(root: Path) -> None:
    execute("plain", root=root)
    output = root / "data" / "plain"
    output.rename(output.with_name("plain.old.partial"))
    output.with_name("plain.partial").mkdir()
    execute("plain", root=root)
    assert sorted(path.name for path in (root / "data").iterdir()) == ["in", "plain"]


def test_work_outlives_a_failure_but_no_change(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def resume(stage: Stage[Parameters]) -> None:
        seen.append(sorted(path.name for path in stage.work.iterdir()))
        (stage.work / "checkpoint").touch()
        if len(seen) in (1, 2, 3):
            raise RuntimeError("killed")

    monkeypatch.setattr(FakeModule, "run", staticmethod(resume))
    for change in (None, "params", "input", None):
        if change == "params":
            (root / "params.yaml").write_text("seed: 1\nplain: {rows: 5}\nsplit: {}\n")
        if change == "input":
            (root / "data" / "in" / "a").write_text("b")
        try:
            execute("plain", root=root)
        except RuntimeError:
            continue
    assert seen == [[], [], [], ["checkpoint"]]
    assert not (root / ".hesper" / "work" / "plain").exists()


def test_inputs_are_the_recorded_ones(root: Path) -> None:
    entry = find_stage(root, "split", "red")
    with pytest.raises(InputError, match="needs data/plain, which does not exist"):
        input_ids(root, entry)
    execute("plain", root=root)
    ids = input_ids(root, entry)
    lock = {"stages": {"plain": {"outs": [{"path": "data/plain", "md5": ids["data/plain"]}]}}}
    (root / "dvc.lock").write_text(json.dumps(lock))
    assert input_ids(root, entry) == ids
    (root / "data" / "plain" / "x.txt").write_text("touched")
    with pytest.raises(InputError, match=r"is not the version dvc\.lock records"):
        input_ids(root, entry)


def test_a_stage_reads_only_what_its_lineage_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def peek(stage: Stage[Parameters]) -> None:
        stage.input("data/in")
        stage.input("models/secret")

    monkeypatch.setattr(FakeModule, "run", staticmethod(peek))
    with pytest.raises(ParameterError, match="plain reads models/secret, which is not among its deps"):
        execute("plain", root=root)


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the disk is read-only")]
)
def test_the_disk_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str) -> None:
    def write(stage: Stage[Parameters]) -> None:
        raise OSError(number, "no", str(stage.output))

    monkeypatch.setattr(FakeModule, "run", staticmethod(write))
    with pytest.raises(StorageError, match=message):
        execute("plain", root=root)


def test_random_numbers_depend_on_seed_stage_and_name_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[float, float]] = []

    def draw(stage: Stage[Parameters]) -> None:
        drawn.append((stage.rng("a", 1).random(), stage.rng("a", 2).random()))

    monkeypatch.setattr(FakeModule, "run", staticmethod(draw))
    execute("plain", root=root)
    execute("plain", root=root)
    execute("split", "red", root=root)
    (root / "params.yaml").write_text("seed: 2\nplain: {rows: 2}\nsplit: {}\n")
    execute("plain", root=root)
    assert drawn[0] == drawn[1]
    assert len({value for pair in (drawn[0], *drawn[2:]) for value in pair}) == 6


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32())])
    rows = [{"id": str(i), "n": i} for i in range(200)]
    assert write_parquet(tmp_path / "a.parquet", iter(rows), schema) == 200
    write_parquet(tmp_path / "b.parquet", rows, schema)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert write_parquet(tmp_path / "empty.parquet", [], schema) == 0


def test_ids_are_of_names_and_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "x").write_text("1")
    first = directory_id(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").touch()
    (folder / "y.partial").touch()
    assert directory_id(folder) == first
    shutil.copytree(folder, tmp_path / "b")
    assert directory_id(tmp_path / "b") == first
    (folder / "deep" / "x").rename(folder / "deep" / "z")
    assert directory_id(folder) != first
