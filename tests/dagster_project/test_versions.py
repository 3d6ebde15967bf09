"""DVC in process: the same ids, one writer at a time, and mending after a kill."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assets.errors import InputError, StorageError
from assets.stage import directory_id
from dagster_project.versions import Versions, lock_file
from tests.toy import clean_environment


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two stages without code: copy a source into a folder."""
    root = tmp_path / "repository"
    root.mkdir()
    for name in ("a", "b"):
        (root / f"{name}.txt").write_text(name)
    stage = "  {n}:\n    cmd: mkdir -p out/{n} && cp {n}.txt out/{n}/x.txt\n    deps: [{n}.txt]\n    outs: [out/{n}]\n"
    (root / "dvc.yaml").write_text("stages:\n" + stage.format(n="a") + stage.format(n="b"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=root, check=True, env=clean_environment())
    return root


def make(root: Path, name: str, text: str = "made") -> None:
    folder = root / "out" / name / "deep"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.txt").write_text(text)
    (root / "out" / name / "ä b.bin").write_bytes(bytes(range(256)))


def commit_in_process(root: str, name: str) -> None:
    Versions(Path(root)).commit(name)


def test_directory_id_is_dvcs(repository: Path) -> None:
    make(repository, "a")
    (repository / "out" / "a" / "A").write_text("sorts before a")
    (repository / "out" / "a" / ".hidden").write_text("counts")
    (repository / "out" / "a" / "empty").mkdir()
    versions = Versions(repository)
    assert versions.commit("a") == directory_id(repository / "out" / "a")
    assert versions.output("a").id == directory_id(repository / "out" / "a")


def test_changes_name_what_changed(repository: Path) -> None:
    versions = Versions(repository)
    make(repository, "a")
    assert not versions.unchanged("a")
    versions.commit("a")
    assert versions.unchanged("a")
    (repository / "a.txt").write_text("other")
    assert versions.changes("a") == ["changed deps: a.txt modified"]
    assert versions.all_changes(["a", "b"])["b"]


def test_two_commits_at_once_both_succeed(repository: Path) -> None:
    for name in ("a", "b"):
        make(repository, name, name * 1_000_000)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=commit_in_process, args=(str(repository), name)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    versions = Versions(repository)
    assert versions.unchanged("a")
    assert versions.unchanged("b")


def test_waits_for_a_dvc_command_and_gives_up_in_the_end(repository: Path) -> None:
    make(repository, "a")
    holder = Versions(repository)
    with holder._exclusive():
        other = Versions(repository, wait_seconds=0.3)
        with pytest.raises(StorageError, match="busy for 0 s"):
            other.changes("a")


def test_commit_refuses_what_changed_while_the_stage_ran(repository: Path) -> None:
    versions = Versions(repository)
    changes, before = versions.look("a")
    assert changes
    make(repository, "a")
    (repository / "a.txt").write_text("edited meanwhile")
    with pytest.raises(InputError, match=r"a\.txt changed while a ran"):
        versions.commit("a", before)
    assert not (repository / "dvc.lock").exists()


def test_a_write_cut_short_is_undone(repository: Path) -> None:
    versions = Versions(repository)
    make(repository, "a")
    versions.commit("a")
    whole = (repository / "dvc.lock").read_text()
    copy = lock_file(repository).with_name("dvc.lock.before")
    shutil.copyfile(repository / "dvc.lock", copy)
    (repository / "dvc.lock").write_text(whole[: len(whole) // 2])
    (repository / ".dvc" / "tmp" / "rwlock").write_text('{"write": {')
    assert Versions(repository).unchanged("a")
    assert (repository / "dvc.lock").read_text() == whole
    assert not copy.exists()


def test_a_process_that_is_gone_holds_nothing(repository: Path) -> None:
    versions = Versions(repository)
    make(repository, "a")
    versions.commit("a")
    out = str(repository / "out" / "a")
    lock = {"write": {out: {"pid": 1, "cmd": "a process from before the restart"}}, "read": {}}
    path = repository / ".dvc" / "tmp" / "rwlock"
    path.write_text(json.dumps(lock))
    import os

    os.utime(path, (1, 1))  # written before the process that has the number now was started
    (repository / "out" / "a" / "more").write_text("x")
    versions.commit("a")


def test_export_and_push_are_whole(repository: Path, tmp_path: Path) -> None:
    versions = Versions(repository)
    make(repository, "a")
    identity = versions.commit("a")
    versions.export(identity, tmp_path / "copy")
    assert directory_id(tmp_path / "copy") == identity
    with pytest.raises(InputError, match="not in the DVC cache"):
        versions.export("0" * 32 + ".dir", tmp_path / "other")

    command = [sys.executable, "-m", "dvc", "remote", "add", "-d", "store", str(tmp_path / "store")]
    subprocess.run(command, cwd=repository, check=True, env=clean_environment())
    versions = Versions(repository)
    assert versions.push(["a"]) == 3
    cut = next(path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.stat().st_size == 256)
    cut.chmod(0o644)
    cut.write_bytes(b"cut")
    with pytest.raises(StorageError, match="did not reach the remote whole"):
        versions.push(["a"])
    shutil.rmtree(repository / "out")


def test_add_versions_a_folder_that_no_stage_makes(repository: Path) -> None:
    make(repository, "batch")
    shutil.move(repository / "out" / "batch", repository / "batch")
    assert Versions(repository).add(repository / "batch") == directory_id(repository / "batch")
    assert (repository / "batch.dvc").is_file()
