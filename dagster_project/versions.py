"""DVC, in process: is a stage unchanged, commit it, what is the id of its output, push it and prove that it arrived.

Nothing here knows which project it serves. Three things DVC leaves to its caller are settled here:

- DVC's repository lock gives up after three seconds, so two stages that end together would fail one of them. Every call
  goes through one file lock that waits (`wait_seconds`), and waits as well for a `dvc` command somebody else runs.
- DVC writes dvc.lock in place. It is copied aside before each write, and a process killed in the middle of the write is
  mended by the next one.
- A stage whose sources change while it runs would be recorded as made from the new ones. `commit` is given what the
  stage started from, and refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from assets.errors import InputError, ParameterError, StorageError

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

WAIT_SECONDS = 3600.0
"""How long a call waits for another that holds the lock: a push of a large model takes its time."""


Stamp = tuple[int, int, int] | None
"""What tells one state of a file from another: when it was written, its size and its inode; None if it isn't there."""


@dataclass(frozen=True)
class Output:
    """The one folder a stage makes. `id` is None where dvc.lock doesn't record it yet."""

    path: str
    id: str | None


class Versions:
    """The DVC repository at `root`. Open it once in a process: opening takes half a second, a question 60 ms."""

    def __init__(self, root: Path, wait_seconds: float = WAIT_SECONDS) -> None:
        self.root = root
        self._wait = wait_seconds
        self._lock = FileLock(lock_file(root))
        self._resolved: tuple[Any, list[PipelineStage]] = (None, [])
        self._recorded: tuple[Stamp, dict[str, Any]] = (None, {})

    # --- questions ----------------------------------------------------------------------------------------------------

    def addresses(self) -> list[str]:
        """Every stage, partitions resolved (`rl@web`), in the order of dvc.yaml."""
        return [stage.name for stage in self.stages()]

    def stages(self) -> list[PipelineStage]:
        """DVC's resolved stages of the dvc.yaml at the root: what they read and make, not what state they are in."""
        stamps = tuple(_stamp(self.root / name) for name in ("dvc.yaml", "params.yaml"))
        if self._resolved[0] != stamps:
            self._resolved = stamps, self._stages()
        return self._resolved[1]

    def unchanged(self, address: str) -> bool:
        """Whether the stage's command, sources, inputs, parameters and output are the ones dvc.lock records."""
        return not self.changes(address)

    def changes(self, address: str) -> list[str]:
        """What differs from dvc.lock, in DVC's words; empty for an unchanged stage."""
        return self.all_changes([address])[address]

    def all_changes(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        """`changes` of several stages, for hardly more than the price of one."""
        found = {}
        with self._exclusive(), _parsed_once():
            for address in addresses:
                try:
                    status = self._stage(address).status()
                except Exception as error:
                    raise _translate(error) from error
                found[address] = [word for entry in status.values() for word in _in_words(entry)]
        return found

    def look(self, address: str) -> tuple[list[str], dict[str, str]]:
        """The stage's changes and, if there are any, its `dependencies` at the same moment."""
        with self._exclusive():
            changes = self.changes(address)
            return changes, self.dependencies(address) if changes else {}

    def dependencies(self, address: str) -> dict[str, str]:
        """Path -> id of everything the stage is made from, as it lies in the workspace now; parameters by value."""
        with self._exclusive():
            ids = {}
            for dep in self._stage(address).deps:
                try:
                    ids[str(dep.def_path)] = _text(dep.get_hash())
                except Exception as error:
                    raise _translate(error) from error
        return ids

    def recorded(self, address: str) -> dict[str, str]:
        """Path -> id of the stage's inputs and sources, as dvc.lock records them; empty when it doesn't."""
        return {item["path"]: item["md5"] for item in self._locked(address).get("deps", []) if "md5" in item}

    def output(self, address: str) -> Output:
        """The stage's output and the id dvc.lock records for it."""
        path = self._output_path(address)
        for out in self._locked(address).get("outs", []):
            if out["path"] == path:
                return Output(path, out.get("md5"))
        return Output(path, None)

    # --- writes -------------------------------------------------------------------------------------------------------

    def commit(self, address: str, started_from: Mapping[str, str] | None = None) -> str:
        """Record the stage's output and what it was made from in dvc.lock and the cache; returns the output's id.

        Raises:
            InputError: something the stage was made from changed while it ran (`started_from` says what it was).
        """
        with self._exclusive(), self._journal():
            if started_from is not None:
                now = self.dependencies(address)
                moved = sorted(path for path in {*started_from, *now} if started_from.get(path) != now.get(path))
                if moved:
                    raise InputError(
                        f"{', '.join(moved)} changed while {address} ran, so its output is not recorded: run it again"
                    )
            try:
                self._repo.commit(address, force=True)
            except Exception as error:
                raise _translate(error) from error
        identity = self.output(address).id
        if identity is None:
            raise InputError(f"DVC recorded no id for the output of {address}: is it marked `cache: false`?")
        return identity

    def add(self, path: Path) -> str:
        """Version a folder that no stage makes (`<path>.dvc` is written beside it); returns its id."""
        with self._exclusive():
            try:
                stages = self._repo.add(str(path))
            except Exception as error:
                raise _translate(error) from error
        return str(stages[0].outs[0].hash_info.value)

    def push(self, addresses: Sequence[str], remote: str | None = None) -> int:
        """Send the outputs to the DVC remote and check that every object arrived whole; returns how many are there.

        DVC has reported success after a truncated upload, so sizes are compared afterwards.

        Raises:
            StorageError: there is no remote, or an object on it is missing or has the wrong size.
        """
        with self._exclusive():
            try:
                self._repo.push(list(addresses), remote=remote)
                return self._verify(addresses, remote)
            except Exception as error:
                raise _translate(error) from error

    def pull(self, addresses: Sequence[str], remote: str | None = None) -> None:
        """Fetch recorded outputs from the DVC remote into the workspace."""
        with self._exclusive():
            try:
                self._repo.pull(list(addresses), remote=remote)
            except Exception as error:
                raise _translate(error) from error

    def export(self, identity: str, path: Path) -> None:
        """Write the folder with this id from the cache to a new place.

        Raises:
            InputError: the cache doesn't hold it.
        """
        cache = self._repo.cache.local
        try:
            listing = json.loads(Path(cache.oid_to_path(identity)).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{identity} is not in the DVC cache: `dvc fetch` it first") from None
        for item in listing:
            target = path / item["relpath"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cache.oid_to_path(item["md5"]), target)

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _repo(self) -> Repo:
        import logging

        logging.getLogger("dvc").setLevel(logging.ERROR)
        from dvc.repo import Repo

        try:
            return Repo(str(self.root))
        except Exception as error:
            raise _translate(error) from error

    def _stages(self) -> list[PipelineStage]:
        """The stages as DVC has them now, with the ids of dvc.lock."""
        try:
            found = self._repo.index.stages
        except Exception as error:
            raise _translate(error) from error
        return [stage for stage in found if getattr(stage, "name", None) and Path(stage.path) == self.root / "dvc.yaml"]

    def _stage(self, address: str) -> PipelineStage:
        for stage in self._stages():
            if stage.name == address:
                return stage
        raise ParameterError(f"dvc.yaml has no stage '{address}'; known: {', '.join(self.addresses())}")

    def _output_path(self, address: str) -> str:
        for stage in self.stages():
            if stage.name == address and stage.outs:
                return str(stage.outs[0].def_path)
        raise ParameterError(f"dvc.yaml has no stage '{address}' with an output")

    def _locked(self, address: str) -> dict[str, Any]:
        from assets.stage import load_yaml

        lock = self.root / "dvc.lock"
        with self._held():
            stamp = _stamp(lock)
            if self._recorded[0] != stamp:
                self._recorded = stamp, load_yaml(lock).get("stages", {}) if stamp else {}
        entry: dict[str, Any] = self._recorded[1].get(address, {})
        return entry

    def _verify(self, addresses: Sequence[str], remote: str | None) -> int:
        store = self._repo.cloud.get_remote_odb(remote, "push", hash_name="md5")
        local = self._repo.cache.local
        count = 0
        for address in addresses:
            identity = self.output(address).id
            if identity is None:
                continue
            wanted = [identity]
            wanted += [item["md5"] for item in json.loads(Path(local.oid_to_path(identity)).read_text("utf-8"))]
            for oid in sorted(set(wanted)):
                there = store.oid_to_path(oid)
                size = Path(local.oid_to_path(oid)).stat().st_size
                if not store.fs.exists(there) or store.fs.size(there) != size:
                    raise StorageError(f"{address}: object {oid} did not reach the remote whole; push again")
                count += 1
        return count

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the project's lock, with dvc.lock whole."""
        try:
            self._lock.acquire(self._wait)
        except Timeout:
            raise StorageError(f"DVC was busy for {self._wait:.0f} s ({self._lock.lock_file} is held)") from None
        try:
            if self._lock.lock_counter == 1:
                self._restore()
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the project's lock and, inside it, DVC's own."""
        with self._held():
            if self._repo._lock_depth:
                yield
                return
            self._acquire_dvc()
            try:
                with contextlib.chdir(self.root):  # DVC takes paths and stages as seen from the working directory
                    yield
            finally:
                self._release_dvc()

    def _acquire_dvc(self) -> None:
        """Take DVC's repository lock, waiting for whoever has it, and start from the files as they are."""
        from dvc.lock import LockError

        deadline = time.monotonic() + self._wait
        while True:
            try:
                self._repo.lock.lock()
                break
            except LockError:
                if time.monotonic() > deadline:
                    raise StorageError(f"another dvc command held this repository for {self._wait:.0f} s") from None
        self._repo._reset()
        self._repo._lock_depth += 1

    def _release_dvc(self) -> None:
        self._repo._lock_depth -= 1
        self._repo._reset()
        self._repo.lock.unlock()

    @contextlib.contextmanager
    def _journal(self) -> Iterator[None]:
        lock, copy = self.root / "dvc.lock", self._copy
        if lock.is_file():
            shutil.copyfile(lock, copy.with_suffix(".partial"))
            os.replace(copy.with_suffix(".partial"), copy)
        else:
            copy.write_text("")
        yield
        copy.unlink()

    @property
    def _copy(self) -> Path:
        return self.root / ".hesper" / "locks" / "dvc.lock.before"

    def _restore(self) -> None:
        """Mend what a process that was killed while it wrote left behind."""
        lock = self.root / "dvc.lock"
        if self._copy.is_file():
            if self._copy.stat().st_size:
                os.replace(self._copy, lock)
            else:
                lock.unlink(missing_ok=True)
                self._copy.unlink()
        _mend_rwlock(self.root / ".dvc" / "tmp" / "rwlock")


@contextlib.contextmanager
def _parsed_once() -> Iterator[None]:
    """Let DVC parse a file of parameters once: asked about many stages it would do so again for each of them."""
    from copy import deepcopy

    from dvc.utils.serialize import LOADERS, load_yaml

    known: dict[str, Any] = {}

    def load(path: Any, fs: Any = None, **options: Any) -> Any:
        if str(path) not in known:
            known[str(path)] = load_yaml(path, fs=fs, **options)
        return deepcopy(known[str(path)])

    LOADERS[".yaml"] = load
    try:
        yield
    finally:
        LOADERS.pop(".yaml", None)  # what it has no entry for is YAML


def lock_file(root: Path) -> Path:
    """The one lock every reader and writer of dvc.lock in this project takes."""
    path = root / ".hesper" / "locks" / "dvc"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path.parent} can't be written ({error.strerror})") from error
    return path


def _mend_rwlock(path: Path) -> None:
    """Drop DVC's record of paths in use where it is broken, or names a process that is gone.

    DVC forgets dead processes itself, but takes a new process with the old number for the old one.
    """
    import psutil

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        written = path.stat().st_mtime
    except FileNotFoundError:
        return
    except json.JSONDecodeError:
        path.unlink()
        return
    holders = [info for info in document.get("write", {}).values()]
    holders += [info for infos in document.get("read", {}).values() for info in infos]

    def alive(pid: int) -> bool:
        try:
            return psutil.Process(pid).create_time() <= written
        except psutil.NoSuchProcess:
            return False

    if holders and not any(alive(info["pid"]) for info in holders):
        path.unlink()


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _in_words(status: Sequence[Any]) -> list[str]:
    words: list[str] = []
    for item in status:
        if isinstance(item, str):
            words.append(item)
            continue
        for kind, paths in item.items():
            words += [f"{kind}: {path} {state}" for path, state in paths.items()]
    return words


def _text(hash_info: Any) -> str:
    value = hash_info.value
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _translate(error: Exception) -> Exception:
    """DVC's failure as one message of ours; what is already ours, or a bug, stays what it is."""
    import errno

    from dvc.exceptions import DvcException

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageError("DVC: the disk is full")
        if isinstance(cause, OSError) and cause.errno in (errno.EROFS, errno.EACCES):
            return StorageError(f"DVC can't write {cause.filename or ''}: {cause.strerror}")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, DvcException):
        return ParameterError(f"DVC: {error}")
    return error
