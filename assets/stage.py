"""What a stage is: typed parameters in, files out, metrics along the way.

`python -m assets STAGE [--partition P]` calls `execute`. It

1. reads the stage's entry of dvc.yaml and its section of params.yaml (an error names the right key);
2. resolves the id of every data dependency and checks the bytes against dvc.lock;
3. lets the stage write into a sibling of its output, `<output>.partial`, and swaps it in only when it is complete, so
   that a killed stage leaves the old output whole;
4. tells the terminal, MLflow and, when Dagster launched it, Dagster Pipes what happens.

Outputs hold no times and no machine names: the same inputs, code, parameters and seed give the same bytes. What
varies belongs in MLflow.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from assets.errors import (
    InputError,
    ParameterError,
    StorageError,
)
from assets.reporting import Reporter

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image

T = TypeVar("T")
P = TypeVar("P", bound="StageParameters")
K = TypeVar("K")
W = TypeVar("W", bound=Mapping[Any, float] | Sequence[float])


class StageParameters(BaseModel):
    """Base of every parameter section: unknown keys are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def some_weight(weights: W) -> W:
    """Validator of relative weights, a mapping or a sequence: one at least is above 0, or nothing could be drawn."""
    if not any(weights.values() if isinstance(weights, Mapping) else weights):
        raise ValueError("one of the weights must be above 0")
    return weights


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Weights = Annotated[dict[K, Weight], AfterValidator(some_weight)]
"""Relative weights of what is drawn at random, by name."""


# --- parameters ------------------------------------------------------------------------------------------------------


def load_section(path: Path, section: str, model: type[P]) -> P:
    """Validate one top-level section of a params file.

    Raises:
        ParameterError: the file, the section or a key is wrong; the message names the nearest right key.
    """
    document = load_yaml(path)
    if section not in document:
        raise ParameterError(f"{path.name}: section '{section}' is missing{nearest(section, document)}")
    return validate_section(document[section], section, model, path.name)


def validate_section(values: Any, section: str, model: type[P], source: str) -> P:
    """Validate the values of one section; `source` names the file in the message."""
    try:
        return model.model_validate(values if values is not None else {})
    except ValidationError as error:
        problems = []
        # First what is there and should not be: it may be what a missing parameter was meant to be.
        for item in sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden"):
            place = ".".join([section, *(str(part) for part in item["loc"])])
            if item["type"] == "extra_forbidden":
                known = _fields_at(model, item["loc"][:-1])
                problems.append(f"{place}: no such parameter{nearest(str(item['loc'][-1]), known)}")
            elif item["type"] == "missing":
                problems.append(f"{place} is missing")
            else:
                problems.append(f"{place}: {item['msg']} (got {item['input']!r})")
        raise ParameterError("\n".join(f"{source}: {problem}" for problem in problems)) from None


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping (safe loader).

    Raises:
        ParameterError: missing file, broken YAML, a key that stands twice, or not a mapping.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=YamlLoader)
    except FileNotFoundError:
        raise ParameterError(f"{path} does not exist") from None
    except (yaml.YAMLError, ValueError) as error:  # a date that is none is a ValueError
        raise ParameterError(f"{path.name} is not valid YAML: {error}") from None
    if not isinstance(document, dict):
        raise ParameterError(f"{path.name} must hold a mapping of sections, found {type(document).__name__}")
    return document


class YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's safe loader, by which a key that stands twice in a mapping is an error and not the last one's value.

    libyaml's where PyYAML was built with it: ten times faster on a dvc.lock.
    """

    def construct_document(self, node: yaml.Node) -> Any:
        """The values of a document.

        Raises:
            DuplicateKeyError: a key stands twice in one mapping.
        """
        _refuse_duplicate_keys(node)
        return super().construct_document(node)


class DuplicateKeyError(yaml.YAMLError):
    """A key stands twice in one mapping."""


def _refuse_duplicate_keys(root: yaml.Node) -> None:
    """Nodes know their lines, and in them a merge (`<<`) has not repeated any key yet."""
    waiting = [(root, "")]
    seen = set()
    while waiting:
        node, place = waiting.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(item, f"{place}[{index}]") for index, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            known, line = (key.tag, str(key.value)), key.start_mark.line + 1
            name = f"{place}.{key.value}" if place else str(key.value)
            if known in lines:
                raise DuplicateKeyError(f"'{name}' is given twice, in lines {lines[known]} and {line}")
            lines[known] = line
            waiting.append((value, name))


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: the known one it is most like, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1, 0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""


def _fields_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """The field names of the nested model at `location`, for the hint in an error."""
    current: Any = model
    for part in location:
        if not (isinstance(current, type) and issubclass(current, BaseModel)):
            return []
        info = current.model_fields.get(str(part))
        current = info.annotation if info is not None else None
    if isinstance(current, type) and issubclass(current, BaseModel):
        return list(current.model_fields)
    return []


# --- dvc.yaml --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageEntry:
    """One stage of dvc.yaml, a partition resolved: what it depends on and the one folder it writes."""

    name: str
    partition: str | None
    module: str
    data: tuple[str, ...]
    source: tuple[str, ...]
    sections: tuple[str, ...]
    output: str

    @property
    def address(self) -> str:
        """`rl_checkpoint@web`, as DVC writes it."""
        return self.name if self.partition is None else f"{self.name}@{self.partition}"


def project_root(start: Path | None = None) -> Path:
    """The folder that holds dvc.yaml: `start` (default: the working directory) or one of its parents.

    Raises:
        ParameterError: no dvc.yaml up to the root of the file system.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file():
            return folder
    raise ParameterError(f"no dvc.yaml in {here} or above it: run inside a Hesper project")


def find_stage(root: Path, name: str, partition: str | None) -> StageEntry:
    """Resolve a stage of dvc.yaml and the module that bears its name.

    Raises:
        ParameterError: no such stage, or a partition is missing, unknown or not asked for.
    """
    stages = load_yaml(root / "dvc.yaml").get("stages", {})
    if name not in stages:
        raise ParameterError(f"dvc.yaml has no stage '{name}'{nearest(name, stages)}")
    entry = stages[name]
    matrix = entry.get("matrix")
    values = [str(value) for value in next(iter(matrix.values()))] if matrix else []
    if values and partition not in values:
        raise ParameterError(f"stage '{name}' needs --partition, one of: {', '.join(values)}")
    if not values and partition is not None:
        raise ParameterError(f"stage '{name}' has no partitions")

    placeholder = f"${{item.{next(iter(matrix))}}}" if matrix else ""

    def resolve(path: str) -> str:
        return path.replace(placeholder, str(partition)) if matrix else path

    outputs = [resolve(next(iter(out)) if isinstance(out, dict) else out) for out in entry["outs"]]
    if len(outputs) != 1:
        raise ParameterError(f"stage '{name}' must have exactly one output folder, dvc.yaml lists {len(outputs)}")
    module = _module_name(root, name)
    if module is None:
        raise ParameterError(f"stage '{name}' needs exactly one file assets/*/{name}.py")
    data = tuple(resolve(dep) for dep in entry.get("deps", []) if resolve(dep).split("/")[0] in DATA_FOLDERS)
    source = tuple(dep for dep in entry.get("deps", []) if dep.split("/")[0] not in DATA_FOLDERS)
    sections = tuple(entry.get("params", []))
    return StageEntry(name, partition, module, data, source, sections, outputs[0])


def stage_module(root: Path, name: str) -> ModuleType | None:
    """The module of a stage, imported; None where no file bears its name."""
    module = _module_name(root, name)
    return importlib.import_module(module) if module is not None else None


def _module_name(root: Path, name: str) -> str | None:
    files = sorted((root / "assets").glob(f"*/{name}.py"))
    return f"assets.{files[0].parent.name}.{name}" if len(files) == 1 else None


DATA_FOLDERS = ("data", "models", "reports")
"""Top-level folders that hold versioned bytes; every other dependency of a stage is source code."""


# --- ids -------------------------------------------------------------------------------------------------------------


def directory_id(path: Path) -> str:
    """DVC's id of a folder, `<32 hex>.dir`: the md5 of its sorted listing of file md5s.

    The same string that `dvc commit` writes into dvc.lock (a test holds the two equal); computed here so that a stage
    can check its inputs without DVC's lock.
    """
    listing = []
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path)
        if file.is_file() and not any(part == "__pycache__" or part.endswith(".partial") for part in relative.parts):
            with file.open("rb") as stream:
                listing.append({"md5": hashlib.file_digest(stream, "md5").hexdigest(), "relpath": relative.as_posix()})
    listing.sort(key=lambda entry: entry["relpath"])
    return hashlib.md5(json.dumps(listing, sort_keys=True).encode()).hexdigest() + ".dir"


def recorded_ids(root: Path) -> dict[str, str]:
    """Output path -> id for everything dvc.lock records."""
    lock = root / "dvc.lock"
    if not lock.is_file():
        return {}
    stages = load_yaml(lock).get("stages", {})
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}


def input_ids(root: Path, entry: StageEntry) -> dict[str, str]:
    """Path -> id of every data dependency, checked against dvc.lock.

    Raises:
        InputError: an input is missing, or differs from the version recorded for it.
    """
    recorded = recorded_ids(root)
    ids = {}
    for path in entry.data:
        folder = root / path
        if not folder.is_dir():
            raise InputError(f"{entry.address} needs {path}, which does not exist: run the stage that makes it first")
        ids[path] = directory_id(folder)
        if path in recorded and recorded[path] != ids[path]:
            raise InputError(
                f"{path} is not the version dvc.lock records ({ids[path]}, recorded {recorded[path]}): "
                "run its stage again, or `dvc checkout` it"
            )
    return ids


# --- the stage at work -----------------------------------------------------------------------------------------------


@dataclass
class Stage(Generic[P]):
    """What a stage's `run(stage)` is given: parameters, input folders, the output folder and one place to report to.

    Attributes:
        parameters: the stage's typed section of params.yaml.
        output: the folder to write into; becomes the stage's output when `run` returns.
        work: a folder that outlives a killed process but not a change of inputs or parameters; for checkpoints.
        inputs: path -> DVC id of every data dependency.
        follows: in a process that helps the stage's own: its rank, and the folder where they meet. It reports nothing
            and has no output.
    """

    entry: StageEntry
    root: Path
    parameters: P
    params_file: Path
    output: Path
    work: Path
    inputs: dict[str, str]
    seed: int
    reporter: Reporter
    series: list[tuple[int, str, float]] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    follows: tuple[int, Path] | None = None

    @property
    def partition(self) -> str | None:
        """The domain of a partitioned stage."""
        return self.entry.partition

    def section(self, name: str, model: type[T]) -> T:
        """A shared section of params.yaml (for example `agent`), validated."""
        return load_section(self.params_file, name, model)  # type: ignore[type-var]

    def input(self, path: str) -> Path:
        """The folder of a data dependency.

        Raises:
            ParameterError: dvc.yaml doesn't list it: what a stage reads must be in its lineage.
        """
        if path not in self.inputs:
            raise ParameterError(f"{self.entry.address} reads {path}, which is not among its deps in dvc.yaml")
        return self.root / path

    def rng(self, *names: object) -> random.Random:
        """A random generator that depends on the seed, the stage and `names` alone."""
        text = "/".join(str(name) for name in (self.seed, self.entry.address, *names))
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))

    def progress(self, items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
        """Iterate with a progress bar on the terminal."""
        from tqdm import tqdm

        yield from tqdm(
            items,
            desc=f"{self.entry.address}: {description}",
            total=total,
            mininterval=1.0,
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
            disable=self.follows is not None,
        )

    def metric(self, name: str, value: float, step: int) -> None:
        """One point of a curve. Goes to MLflow and to `curves.csv` in the output."""
        self.series.append((step, name, float(value)))
        self.reporter.metric(name, float(value), step)

    def summary(self, **metrics: float) -> None:
        """Final figures. They go to `metrics.json` in the output, to MLflow and into Dagster's metadata."""
        self.metrics.update({name: float(value) for name, value in metrics.items()})

    def picture(self, name: str, image: Image) -> None:
        """A picture people look at: `pictures/NAME.png` in the output, an MLflow artifact, Dagster metadata."""
        folder = self.output / "pictures"
        folder.mkdir(exist_ok=True)
        image.save(folder / f"{name}.png", optimize=True)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A small table for people, as Markdown: `NAME.md` in the output, an MLflow artifact, Dagster metadata."""
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        (self.output / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def log(self, message: str) -> None:
        """A line for people, to the terminal."""
        if self.follows is None:
            print(f"{self.entry.address}: {message}", file=sys.stderr, flush=True)


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value).replace("|", "\\|").replace("\n", " ")


def write_parquet(path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema, row_group: int = 64) -> int:
    """Write rows to a Parquet file with a fixed writer, so that the same rows give the same bytes. Returns the count.

    Rows are written in groups as they come: memory stays flat whatever `rows` yields.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd", version="2.6", write_statistics=True) as writer:
        group: list[Mapping[str, Any]] = []
        for row in rows:
            group.append(row)
            count += 1
            if len(group) == row_group:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group = []
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
    return count


def execute(name: str, partition: str | None = None, root: Path | None = None) -> str:
    """Run one stage from its files to its files and return the id of its output.

    Raises:
        HesperError: with one message for a person; see its subclasses.
    """
    started = time.monotonic()
    root = project_root(root)
    entry = find_stage(root, name, partition)
    module = importlib.import_module(entry.module)
    params_file = root / "params.yaml"
    parameters = load_section(params_file, name, module.Parameters)
    seed = int(load_yaml(params_file).get("seed", 0))
    _die_with_parent()
    with _storage_errors(entry), _only_one(root, entry):
        inputs = input_ids(root, entry)
        output = root / entry.output
        partial = output.with_name(output.name + ".partial")
        _recover(output)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fingerprint = _fingerprint(root, entry, inputs, load_yaml(params_file))
        work = root / ".hesper" / "work" / entry.address / fingerprint
        work.mkdir(parents=True, exist_ok=True)
        reporter = Reporter.open(root, entry, inputs, parameters)
        stage = Stage(entry, root, parameters, params_file, partial, work, inputs, seed, reporter)
        try:
            begun = time.monotonic()
            run: Callable[[Stage[Any]], None] = module.run
            run(stage)
            _write_metrics(stage)
            _swap(partial, output)
            identity = directory_id(output)
            now = time.monotonic()
            seconds = {"work_seconds": now - begun, "total_seconds": now - started}
            reporter.finish(output, entry.output, identity, stage.metrics, seconds)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            reporter.fail(error)
            raise
        shutil.rmtree(work.parent, ignore_errors=True)
    return identity


def open_follower(
    name: str, partition: str | None, work: Path, inputs: dict[str, str], follows: tuple[int, Path]
) -> Stage[Any]:
    """The stage as a process sees it that helps the stage's own, whose `work` and `inputs` it is given.

    Ends with that process.
    """
    root = project_root()
    entry = find_stage(root, name, partition)
    params_file = root / "params.yaml"
    parameters = load_section(params_file, name, importlib.import_module(entry.module).Parameters)
    seed = int(load_yaml(params_file).get("seed", 0))
    _die_with_parent()
    output = follows[1] / f"output{follows[0]}"
    reporter = Reporter(None, None)
    return Stage(entry, root, parameters, params_file, output, work, inputs, seed, reporter, follows=follows)


def _fingerprint(root: Path, entry: StageEntry, inputs: Mapping[str, str], params: Mapping[str, Any]) -> str:
    """What a checkpoint in `work` is valid for: the same inputs, parameters and source as when it was written.

    But for the number of ranks: a checkpoint holds whole tensors, and other GPUs may be given when it is taken up.
    """
    source = {}
    for path in entry.source:
        full = root / path
        source[path] = directory_id(full) if full.is_dir() else hashlib.md5(full.read_bytes()).hexdigest()
    sections = {name: _without_ranks(params.get(name)) for name in entry.sections}
    return hashlib.sha256(json.dumps([inputs, sections, source], sort_keys=True).encode()).hexdigest()[:16]


def _without_ranks(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _without_ranks(value) for key, value in values.items() if key != "ranks"}
    return values


def _write_metrics(stage: Stage[Any]) -> None:
    text = json.dumps(stage.metrics, indent=1, sort_keys=True) + "\n"
    (stage.output / "metrics.json").write_text(text, encoding="utf-8")
    if stage.series:
        names = sorted({name for _, name, _ in stage.series})
        table: dict[int, dict[str, float]] = {}
        for step, name, value in stage.series:
            table.setdefault(step, {})[name] = value
        lines = [",".join(["step", *names])]
        lines += [
            ",".join([str(step), *(repr(row[name]) if name in row else "" for name in names)])
            for step, row in sorted(table.items())
        ]
        (stage.output / "curves.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _swap(partial: Path, output: Path) -> None:
    """Put the complete folder in the place of the old one. A kill between the two renames is mended by `_recover`."""
    old = output.with_name(output.name + ".old.partial")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        output.rename(old)
    partial.rename(output)
    shutil.rmtree(old, ignore_errors=True)


def _recover(output: Path) -> None:
    old = output.with_name(output.name + ".old.partial")
    if old.exists() and not output.exists():
        old.rename(output)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _only_one(root: Path, entry: StageEntry) -> Iterator[None]:
    """Two processes never run the same stage of one project at once: the second waits for the first to end."""
    from filelock import FileLock

    lock = root / ".hesper" / "locks" / f"{entry.address}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        yield


@contextmanager
def _storage_errors(entry: StageEntry) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(f"{entry.address}: the disk is full ({error.filename or error})") from error
        if error.errno == errno.EROFS:
            raise StorageError(f"{entry.address}: the disk is read-only ({error.filename or error})") from error
        if isinstance(error, PermissionError):
            raise StorageError(f"{entry.address}: no permission to write {error.filename or error}") from error
        raise


def tied_environment() -> dict[str, str]:
    """What tells a stage's process, in its environment, to end with this one."""
    return {"HESPER_LAUNCHED": "1", "HESPER_LAUNCHER": str(os.getpid())}


def _die_with_parent() -> None:
    """When a launcher started this stage, end the stage and everything it started as soon as the launcher is gone."""
    if os.environ.get("HESPER_LAUNCHED") != "1":
        return
    parent = int(os.environ.get("HESPER_LAUNCHER") or os.getppid())
    if os.getpgrp() != os.getpid():
        os.setpgrp()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
