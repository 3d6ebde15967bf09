"""Batches of trajectories from outside: where they arrive, and how each is taken exactly once.

A batch is a folder of the inbox, which is a folder or a prefix of an S3 bucket. Taking one goes like this, and a
process that is killed anywhere is followed by one that ends in the same bytes:

1. the reader that recognises it writes our two tables into a work folder that no stage sees; Great Expectations
   checks them;
2. what was not taken goes to `quarantine/<batch>` in the inbox, a reason each; from here on nothing is decided anew;
3. the tables become `data/imported_batches/<batch>` in one rename, and are versioned with DVC: the batch is committed;
4. the original moves to `taken/<batch>` in the inbox. It is never deleted: that is for a person to do.

Until 4 the original lies in the inbox, so all before can be done again; what is committed already is recognised by the
digest of the original that `source.json` keeps.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock, Timeout

from assets.errors import HesperError, InfrastructureError, InputError
from assets.stage import load_section, load_yaml
from dagster_project.checks import validate
from dagster_project.materialise import Project

if TYPE_CHECKING:
    from assets.verified_trajectories.imports.batches import Import
    from assets.verified_trajectories.imports.parameters import ImportParameters
    from assets.verified_trajectories.imports.rows import Rejection

IMPORTED = "imported_batches"
SUITES = Path(__file__).with_name("imported_suites.yaml")

BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
QUARANTINE, TAKEN = "quarantine", "taken"
NOT_BATCHES = (QUARANTINE, TAKEN, ".gitkeep")
UNFINISHED = (".partial", ".part", ".tmp", ".crdownload", ".filepart")
"""Endings of what a copying program hasn't finished."""
REFUSED = "refused.json"
"""In a folder of the quarantine: which batch it is of, and what became of that."""


@dataclass(frozen=True)
class Arrival:
    """What became of one batch.

    Attributes:
        episodes: how many were taken; 0 for a batch that was refused.
        rejections: how many things of it were not taken.
        reason: why the whole batch was refused, or the reasons for what was not taken, counted where they are many.
        quarantine: where what was not taken lies; empty if all was.
        again: whether it was imported before, so that nothing was taken now.
    """

    batch: str
    episodes: int
    rejections: int
    reason: str
    quarantine: str = ""
    again: bool = False

    @property
    def refused(self) -> bool:
        """Whether nothing of it was taken."""
        return not self.episodes

    def __str__(self) -> str:
        if self.again:
            return f"{self.batch}: its {self.episodes} episodes were imported before, nothing is taken twice"
        where = f"each in {self.quarantine}/reasons.txt" if self.rejections else f"see {self.quarantine}"
        if self.refused:
            return f"{self.batch}: refused: {self.reason} ({where})"
        line = f"{self.batch}: {self.episodes} episodes taken"
        return f"{line}, {self.rejections} things not: {self.reason} ({where})" if self.rejections else line


class Inbox(Protocol):
    """Where batches arrive. Every method may be called again after a process was killed in it."""

    def ready(self, seconds: float) -> list[str]:
        """Names of what has not changed for so long, sorted."""
        ...

    def stamp(self, name: str) -> object:
        """What is there, in short: another value when the batch has changed."""
        ...

    def fetch(self, name: str) -> tuple[Path, list[Rejection]]:
        """A local path of the batch, and what of it can't be a local file."""
        ...

    def set_aside(self, name: str, digest: str, rejected: Path, message: str, whole: bool) -> str:
        """Put what was rejected into the quarantine, and the batch itself if it is refused `whole`; says where."""
        ...

    def put_by(self, name: str) -> None:
        """Move a batch that is committed out of the way."""
        ...


def open_inbox(root: Path, where: str) -> Inbox:
    """The inbox of section `automation`: `s3://bucket/prefix`, or a folder as seen from the project's root."""
    return S3Inbox(where, root / ".hesper" / "imports") if where.startswith("s3://") else FolderInbox(root / where)


# --- taking ----------------------------------------------------------------------------------------------------------


def take_inbox(
    project: Project, inbox: Inbox, parameters: ImportParameters, settle_seconds: float, wait: float = -1
) -> list[Arrival]:
    """Take every batch that has settled: import and version it, or refuse it.

    Args:
        wait: seconds to wait for another process that imports; -1 for as long as it takes.

    Raises:
        InputError: an imported batch is not in the workspace, so that duplicates can't be told.
        InfrastructureError: another process imports, or the inbox can't be reached.
    """
    arrivals = []
    with _alone(project, wait):
        arriving = inbox.ready(settle_seconds)
        _finish_versions(project, arriving)
        for name in arriving:
            arrival = _take(project, inbox, name, parameters)
            if arrival is not None:
                arrivals.append(arrival)
        shutil.rmtree(_folder(project) / WORK, ignore_errors=True)
    return arrivals


def batches(project: Project) -> dict[str, str]:
    """Name -> DVC id of every imported batch."""
    found = {}
    for file in sorted(_folder(project).glob("*.dvc")):
        found[file.stem] = str(load_yaml(file)["outs"][0]["md5"])
    return found


def _take(project: Project, inbox: Inbox, name: str, parameters: ImportParameters) -> Arrival | None:
    """One batch; None if it changed while it was read, so that it has not settled."""
    from assets.verified_trajectories.imports.batches import imported_ids, is_whole, origin_of, source_digest

    target, work = _folder(project) / name, _folder(project) / WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stamp = inbox.stamp(name)
    source, besides = inbox.fetch(name)
    digest = "none"
    try:
        _check_name(name)
        if source.is_symlink() or not source.is_dir():
            raise InputError("a batch is a folder")
        digest = source_digest(source)
        origins = {other: origin_of(_folder(project) / other).get("digest") for other in batches(project)}
        if origins.get(name) == digest and is_whole(target):
            inbox.put_by(name)
            return Arrival(name, len(imported_ids(target)), 0, "", again=True)
        if name in origins and origins[name] != digest:
            raise InputError(f"a batch named {name} was imported before: names are for ever")
        for other, known in origins.items():
            if known == digest and other != name:
                raise InputError(f"this is the batch {other} again, byte for byte: it was imported before")
        done = _import(project, source, work, name, parameters, digest, besides)
        check_tables(work / "batch")
    except InputError as error:
        if inbox.stamp(name) != stamp:
            return None
        rejected = work / "rejected"
        count = len(list(rejected.glob("*.reason.json")))
        place = inbox.set_aside(name, digest, rejected, str(error), whole=True)
        return Arrival(name, 0, count, str(error), place)
    if inbox.stamp(name) != stamp:
        return None
    place = ""
    if done.rejections:
        place = inbox.set_aside(name, digest, work / "rejected", done.reasons, whole=False)
    shutil.rmtree(target, ignore_errors=True)  # there only if DVC was killed while it took it
    os.replace(work / "batch", target)
    project.versions.add(target)
    inbox.put_by(name)
    return Arrival(name, done.episodes, done.rejections, done.reasons, place)


WORK = "importing.partial"
"""Where tables are written before they are committed; DVC and the stages leave `.partial` out."""


def _import(
    project: Project,
    source: Path,
    work: Path,
    name: str,
    parameters: ImportParameters,
    digest: str,
    besides: Sequence[Rejection],
) -> Import:
    from assets.agent.parameters import AgentParameters
    from assets.verified_trajectories.imports.batches import import_batch, imported_ids

    known = {
        identity: other
        for other in batches(project)
        if other != name
        for identity in imported_ids(_folder(project) / other)
    }
    digits = load_section(project.root / "params.yaml", "agent", AgentParameters).coordinate_digits
    return import_batch(source, work, parameters, digits, known, digest, besides)


def check_tables(batch: Path) -> None:
    """Great Expectations on the two tables of an imported batch.

    Raises:
        InputError: an expectation doesn't hold.
    """
    for table, suite in load_yaml(SUITES).items():
        _, findings = validate(batch, table, suite)
        if findings:
            raise InputError("; ".join(f"{table}: {item.expectation}, {item.failing} failing" for item in findings))


def _check_name(name: str) -> None:
    if not BATCH_NAME.fullmatch(name):
        raise InputError(f"the name {name!r} is not made of letters, digits, '.', '_' and '-'")
    if name.endswith((".dvc", ".partial")):
        raise InputError(f"the name {name!r} ends as names of DVC and of work folders do")


def _finish_versions(project: Project, arriving: Sequence[str]) -> None:
    """Version what a process that was killed had already renamed. What DVC left half done is imported again."""
    from assets.verified_trajectories.imports.batches import is_whole

    folder = _folder(project)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / WORK, ignore_errors=True)
    for file in sorted(folder.glob("*.dvc")):
        batch = folder / file.stem
        if not (batch / "episodes.parquet").is_file():
            raise InputError(
                f"the imported batch {batch.name} is not in the workspace: `dvc checkout` or `dvc pull` it first, "
                "or its episodes could be imported again"
            )
        if not _is_record(file) and is_whole(batch):
            file.unlink()
    for batch in sorted(folder.iterdir()):
        versioned = batch.with_name(f"{batch.name}.dvc").is_file()
        if not batch.is_dir() or batch.name.endswith(".partial") or versioned:
            continue
        # What has no original in the inbox was put here by hand.
        if is_whole(batch) or (batch.name not in arriving and (batch / "episodes.parquet").is_file()):
            project.versions.add(batch)


def _is_record(file: Path) -> bool:
    """Whether a .dvc file was written to its end."""
    try:
        return bool(load_yaml(file)["outs"][0]["md5"])
    except (HesperError, LookupError, TypeError):
        return False


def _folder(project: Project) -> Path:
    return project.root / project.lineage.external[IMPORTED]


@contextmanager
def _alone(project: Project, wait: float) -> Iterator[None]:
    path = project.root / ".hesper" / "locks" / "imports"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(wait)
    except Timeout:
        raise InfrastructureError("another process is importing") from None
    try:
        yield
    finally:
        lock.release()


# --- a folder --------------------------------------------------------------------------------------------------------


class FolderInbox:
    """A folder whose folders are batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ready(self, seconds: float) -> list[str]:
        """Names of what has not changed for so long, sorted."""
        if not self._folder.is_dir():
            return []
        found = [path for path in self._folder.iterdir() if path.name not in NOT_BATCHES]
        return sorted(p.name for p in found if not p.name.endswith(UNFINISHED) and _settled(p, seconds))

    def stamp(self, name: str) -> object:
        """Size and time of every file."""
        path = self._folder / name
        return _stamp(path)

    def fetch(self, name: str) -> tuple[Path, list[Rejection]]:
        """The folder itself."""
        return self._folder / name, []

    def set_aside(self, name: str, digest: str, rejected: Path, message: str, whole: bool) -> str:
        """Put what was rejected into the quarantine, and the batch itself if it is refused whole; says where."""
        place = self.keep(name, digest, rejected, message, whole)
        if whole:
            os.replace(self._folder / name, place / "batch")
        return str(place)

    def keep(self, name: str, digest: str, rejected: Path, message: str, whole: bool) -> Path:
        """Put what was rejected into the quarantine; the folder appears when it is complete."""
        quarantine = self._folder / QUARANTINE
        quarantine.mkdir(parents=True, exist_ok=True)

        def belongs_to(place: str) -> str | None:
            there = quarantine / place
            if not os.path.lexists(there):
                return None
            # With the batch in it, it is complete, and of an earlier time.
            return "" if (there / "batch").exists() else _digest_in(_read_if_there(there / REFUSED))

        place = quarantine / _free_place(name, digest, belongs_to)
        partial = quarantine / "unfinished.partial"
        shutil.rmtree(partial, ignore_errors=True)
        if rejected.is_dir():
            shutil.copytree(rejected, partial, copy_function=_link_or_copy)
        partial.mkdir(exist_ok=True)
        (partial / REFUSED).write_bytes(_refused(name, digest, message, whole))
        shutil.rmtree(place, ignore_errors=True)
        os.replace(partial, place)
        return place

    def put_by(self, name: str) -> None:
        """Move a batch that is committed to `taken`."""
        taken = self._folder / TAKEN
        taken.mkdir(exist_ok=True)
        place = _free_place(name, "", lambda place: "other" if os.path.lexists(taken / place) else None)
        os.replace(self._folder / name, taken / place)


class HandedFolder:
    """A folder that somebody hands over by its path. It stays where it is; reasons go to the inbox's quarantine."""

    def __init__(self, path: Path, name: str, inbox: FolderInbox) -> None:
        self._path = path
        self._name = name
        self._inbox = inbox

    def ready(self, seconds: float) -> list[str]:
        """Its name: who hands it over says that it is complete."""
        return [self._name]

    def stamp(self, name: str) -> object:
        """Size and time of every file."""
        return _stamp(self._path)

    def fetch(self, name: str) -> tuple[Path, list[Rejection]]:
        """The folder itself."""
        return self._path, []

    def set_aside(self, name: str, digest: str, rejected: Path, message: str, whole: bool) -> str:
        """Put the reasons into the quarantine."""
        return str(self._inbox.keep(name, digest, rejected, message, whole))

    def put_by(self, name: str) -> None:
        """It stays where it is."""


def _settled(batch: Path, seconds: float) -> bool:
    try:
        times = [path.lstat().st_mtime for path in (batch, *_below(batch))]
    except FileNotFoundError:
        return False
    return time.time() - max(times) >= seconds


def _stamp(batch: Path) -> object:
    found = []
    for path in (batch, *_below(batch)):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if not path.is_dir() or path.is_symlink():
            found.append((str(path), status.st_size, status.st_mtime_ns, status.st_ino))
    return found


def _below(batch: Path) -> list[Path]:
    """Everything below a folder, links not followed."""
    return (
        sorted(Path(folder) / name for folder, folders, names in os.walk(batch) for name in (*folders, *names))
        if not batch.is_symlink()
        else []
    )


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


# --- S3 --------------------------------------------------------------------------------------------------------------


class S3Inbox:
    """A prefix of an S3 bucket, `s3://bucket/prefix`, below which `<batch>/...` are the files of a batch.

    Credentials and the endpoint come from the environment, as botocore reads them (`AWS_ACCESS_KEY_ID`,
    `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, ...), and are never written down here.

    Args:
        work: a local folder for downloaded batches and the record of a move under way.
    """

    def __init__(self, url: str, work: Path) -> None:
        self._root = url.removeprefix("s3://").strip("/")
        self._work = work
        self._journal = work / "moving.json"

    @cached_property
    def _s3(self) -> Any:
        import s3fs

        return s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)

    def ready(self, seconds: float) -> list[str]:
        """Names of the batches whose newest object is older than so many seconds, sorted."""
        with self._reached():
            self._finish_move()
            newest: dict[str, float] = {}
            for key, info in self._objects(self._root).items():
                name = key.removeprefix(f"{self._root}/").partition("/")[0]
                newest[name] = max(newest.get(name, 0.0), info["LastModified"].timestamp())
        now = time.time()
        return sorted(
            name
            for name, changed in newest.items()
            if name not in NOT_BATCHES and not name.endswith(UNFINISHED) and now - changed >= seconds
        )

    def stamp(self, name: str) -> object:
        """Size and ETag of every object."""
        with self._reached():
            objects = self._objects(f"{self._root}/{name}")
        return sorted((key, info["size"], str(info.get("ETag"))) for key, info in objects.items())

    def fetch(self, name: str) -> tuple[Path, list[Rejection]]:
        """Download the batch. An object whose key is no path below the batch is not written anywhere."""
        from assets.verified_trajectories.imports.rows import Place, Rejection

        base = self._work / "downloaded"
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        batch = base / "batch"
        strange = []
        with self._reached():
            for key in sorted(self._objects(f"{self._root}/{name}")):
                if key == f"{self._root}/{name}":  # an object, not a prefix: no folder
                    self._s3.get_file(key, str(batch))
                    return batch, []
                relative = key.removeprefix(f"{self._root}/{name}/")
                try:
                    target = batch / _inside(relative)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    self._s3.get_file(key, str(target))
                except (ValueError, NotADirectoryError, FileExistsError, IsADirectoryError):
                    strange.append(Rejection(Place(relative), "path traversal: the key is no path below the batch"))
        return batch, strange

    def set_aside(self, name: str, digest: str, rejected: Path, message: str, whole: bool) -> str:
        """Put what was rejected below `quarantine/`, and the batch itself if it is refused whole; says where."""
        quarantine = f"{self._root}/{QUARANTINE}"

        def belongs_to(place: str) -> str | None:
            there = self._objects(f"{quarantine}/{place}")
            if not there:
                return None
            complete = any(key.startswith(f"{quarantine}/{place}/batch/") for key in there)
            record = f"{quarantine}/{place}/{REFUSED}"
            return "" if complete or record not in there else _digest_in(self._s3.cat_file(record))

        with self._reached():
            place = f"{quarantine}/{_free_place(name, digest, belongs_to)}"
            self._s3.pipe_file(f"{place}/{REFUSED}", _refused(name, digest, message, whole))
            for path in sorted(rejected.glob("*")):
                self._s3.put_file(str(path), f"{place}/{path.name}")
            if whole:
                self._move(name, f"{place}/batch")
        return f"s3://{place}"

    def put_by(self, name: str) -> None:
        """Move a batch that is committed below `taken/`."""
        with self._reached():
            taken = f"{self._root}/{TAKEN}"
            place = _free_place(name, "", lambda place: "other" if self._objects(f"{taken}/{place}") else None)
            self._move(name, f"{taken}/{place}")

    def _move(self, name: str, to: str) -> None:
        """Copy and delete each object. What is to be moved is written down first, so that a kill leaves no half."""
        self._work.mkdir(parents=True, exist_ok=True)
        plan = {"from": f"{self._root}/{name}", "to": to, "keys": sorted(self._objects(f"{self._root}/{name}"))}
        partial = self._journal.with_suffix(".partial")
        partial.write_text(json.dumps(plan), encoding="utf-8")
        os.replace(partial, self._journal)
        self._finish_move()

    def _finish_move(self) -> None:
        if not self._journal.is_file():
            return
        plan = json.loads(self._journal.read_text(encoding="utf-8"))
        left = self._objects(plan["from"])
        for key in plan["keys"]:
            if key in left:
                self._s3.cp_file(key, plan["to"] + (key.removeprefix(plan["from"]) or "/object"))
                self._s3.rm_file(key)
        self._journal.unlink()

    def _objects(self, prefix: str) -> dict[str, Any]:
        """Key -> what S3 says of every object that is the prefix or lies below it."""
        self._s3.invalidate_cache()
        found = self._s3.find(prefix, detail=True)
        return {
            key: info
            for key, info in found.items()
            if (key == prefix or key.startswith(f"{prefix}/")) and not key.endswith("/")
        }

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """What goes wrong on the way to S3 is a failure of infrastructure; said without what the request held."""
        import botocore.exceptions

        try:
            yield
        except FileNotFoundError:
            raise InfrastructureError(f"s3://{self._root}: no such bucket, or an object vanished") from None
        except botocore.exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise InfrastructureError(f"s3://{self._root}: S3 refuses ({code})") from None
        except (botocore.exceptions.BotoCoreError, PermissionError, ConnectionError, TimeoutError) as error:
            raise InfrastructureError(f"s3://{self._root} can't be reached ({type(error).__name__})") from None


def _inside(relative: str) -> PurePosixPath:
    """A key below a batch as a relative path.

    Raises:
        ValueError: it is none.
    """
    parts = relative.split("/")
    bad = any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
    if bad or "\\" in relative or any(ord(character) < 32 for character in relative):
        raise ValueError(relative)
    return PurePosixPath(*parts)


# --- the quarantine --------------------------------------------------------------------------------------------------


def _free_place(name: str, digest: str, belongs_to: Callable[[str], str | None]) -> str:
    """`name`, `name.2`, ...: the first that is free, or was begun for the batch of this digest.

    Args:
        belongs_to: digest of the batch that a place is of; None for a free place.
    """
    base = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "batch"
    place, number = base, 1
    while belongs_to(place) not in (None, digest or None):
        number += 1
        place = f"{base}.{number}"
    return place


def _refused(name: str, digest: str, message: str, whole: bool) -> bytes:
    said: Mapping[str, Any] = {
        "batch": name,
        "digest": digest,
        "refused": "the whole batch" if whole else "what has a reason here",
        "reason": message,
    }
    return (json.dumps(said, ensure_ascii=True, indent=1, sort_keys=True) + "\n").encode()


def _digest_in(refused: bytes) -> str:
    try:
        return str(json.loads(refused)["digest"])
    except (ValueError, LookupError, TypeError):
        return hashlib.sha256(refused).hexdigest()


def _read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
