"""Other people's data: what our action space can say is taken as it was meant, the rest is set aside, one by one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.agent.actions import REFUSAL, Action, action_from_row, to_coordinates
from assets.agent.grammar import parse_response
from assets.environments.apps import load_heads
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.errors import InputError
from assets.stage import directory_id
from assets.verified_trajectories.imports.agent_net import to_actions
from assets.verified_trajectories.imports.android_control import to_action
from assets.verified_trajectories.imports.batches import Import, import_batch, imported_ids, source_digest
from assets.verified_trajectories.imports.episodes import check_action, locale_of, split_of
from assets.verified_trajectories.imports.rows import BatchFiles, Rejected, Rejection, Row
from assets.verified_trajectories.verified_trajectories import load
from dagster_project.inbox import check_tables
from tests.verified_trajectories.foreign_batches import (
    LIMITS,
    PHONE,
    WRITERS,
    agentnet_task,
    android_episode,
    bomb,
    own_rows,
    picture,
    write_agentnet,
    write_android,
    write_lines,
    write_own,
    write_tables,
)


def take(batch: Path, out: Path, known: dict[str, str] | None = None) -> tuple[Import, list[dict[str, Any]]]:
    """Import a batch. (What came of it, the reasons for what was not taken.)"""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    done = import_batch(batch, out, LIMITS, 3, known or {}, "0" * 64)
    return done, reasons(out)


def reasons(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "rejected").glob("*.reason.json"))]


def read(out: Path) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    return list(load(out / "batch", imported_ids(out / "batch")))


# --- what is taken ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_becomes_tables_that_keep_the_schemas_and_expectations(kind: str, tmp_path: Path) -> None:
    batch = WRITERS[kind](tmp_path / "batch")
    done, rejected = take(batch, tmp_path / "out")
    assert (done.format, done.episodes, rejected) == (kind, 3, [])
    check_tables(tmp_path / "out" / "batch")
    for name, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
        assert pq.read_schema(tmp_path / "out" / "batch" / f"{name}.parquet").equals(schema)
    for row, steps in read(tmp_path / "out"):
        assert row["policy"] == f"imported/{kind}"
        assert row["outcome"] == ""
        assert row["claimed"]
        assert [step["index"] for step in steps] == list(range(row["steps"]))
        for index, step in enumerate(steps):
            actions = tuple(action_from_row(action) for action in step["actions"])
            assert parse_response(step["response"], row["platform"]).actions == actions
            assert step["history"] == [other["response"] for other in steps[:index]]
            points = [point for action in actions for point in action.points()]
            assert len(step["boxes"]) in (0, len(points))


@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_batch_gives_the_same_bytes_and_is_only_read(kind: str, tmp_path: Path) -> None:
    batch = WRITERS[kind](tmp_path / "batch")
    before = source_digest(batch)
    take(batch, tmp_path / "one")
    take(batch, tmp_path / "two")
    assert directory_id(tmp_path / "one" / "batch") == directory_id(tmp_path / "two" / "batch")
    assert source_digest(batch) == before


def test_an_android_step_says_what_it_said(tmp_path: Path) -> None:
    take(write_android(tmp_path / "batch", [5]), tmp_path / "out")
    ((row, steps),) = read(tmp_path / "out")
    assert (row["task_id"], row["app"], row["locale"], row["platform"]) == (
        "androidcontrol/5", "notes", "en", "mobile",
    )  # fmt: skip
    launched, clicked, swiped = (action_from_row(step["actions"][0]) for step in steps)
    assert launched == Action("LaunchApp", content="Notes")
    assert clicked == Action("Click", point=(500, 500))
    assert swiped == Action("Swipe", point=(500, 750), end=(500, 250))
    assert [step["boxes"] for step in steps] == [[], [[44.0, 110.0, 64.0, 130.0]], []]
    assert [step["think"] for step in steps] == ["do open", "do click", "do swipe"]
    assert (steps[0]["width"], steps[0]["height"]) == PHONE


def test_an_agentnet_step_says_what_it_said(tmp_path: Path) -> None:
    take(write_agentnet(tmp_path / "batch", [5]), tmp_path / "out")
    ((row, steps),) = read(tmp_path / "out")
    assert (row["task_id"], row["app"], row["locale"], row["platform"]) == ("agentnet/2024_5", "calc", "zh", "desktop")
    assert [[action_from_row(action) for action in step["actions"]] for step in steps] == [
        [Action("Click", point=(163, 271))],
        [Action("Type", content="quarter"), Action("Hotkey", keys=("enter",))],
        [Action("Finished", content="")],
    ]
    assert [step["think"] for step in steps] == ["Step 0.", "Step 1.", "Step 2."]


def test_our_own_format_is_not_believed_about_split_policy_and_outcome(tmp_path: Path) -> None:
    take(write_own(tmp_path / "batch", [5]), tmp_path / "out")
    ((row, steps),) = read(tmp_path / "out")
    sent, sent_steps = own_rows(5)
    assert row["id"] != sent["id"]
    assert (row["policy"], row["outcome"]) == ("imported/hesper", "")
    assert row["split"] == split_of(["notes"], LIMITS.heldout_share)
    assert row["final_screenshot"]["bytes"] == sent["final_screenshot"]["bytes"]
    for step, sent_step in zip(steps, sent_steps, strict=True):
        for name in set(sent_step) - {"episode_id", "screenshot"}:
            assert step[name] == sent_step[name]


def test_single_steps_become_episodes_where_they_are_numbered_without_a_gap(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    batch.mkdir()
    rows = []
    for number, kept in ((1, (2, 0, 1)), (2, (0, 2))):
        episode = android_episode(number, batch)
        for index in kept:
            step = episode["steps"][index]
            rows.append(
                {
                    "episode_id": number, "step": index, "goal": episode["goal"], "image": step["screenshot"],
                    "action": json.dumps(step["action_content"]), "history": ["opened the app"],
                }
            )  # fmt: skip
    write_lines(batch / "steps.jsonl", rows)
    done, rejected = take(batch, tmp_path / "out")
    assert rejected == []
    found = {row["task_id"]: [step["actions"][0]["name"] for step in steps] for row, steps in read(tmp_path / "out")}
    assert found == {
        "androidcontrol/1": ["LaunchApp", "Click", "Swipe"],
        "androidcontrol/2/0": ["LaunchApp"],
        "androidcontrol/2/2": ["Swipe"],
    }
    assert all(step["history"] == ["opened the app"] for _, steps in read(tmp_path / "out") for step in steps)
    assert done.episodes == 3


def test_the_original_spelling_of_androidcontrol_is_read_too(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    android_episode(1, batch)
    actions: list[dict[str, Any]] = [
        {"action_type": "open_app", "app_name": "Notes"},
        {"action_type": "scroll", "direction": "right"},
    ]
    row = {
        "episode_id": 1, "goal": "Look", "actions": actions, "step_instructions": ["open", "swipe left"],
        "screenshots": [f"1_{index}.png" for index in range(3)],
        "screenshot_widths": [1080] * 3, "screenshot_heights": [2400] * 3,
    }  # fmt: skip
    write_lines(batch / "train.jsonl", [row])
    take(batch, tmp_path / "out")
    ((episode, steps),) = read(tmp_path / "out")
    assert action_from_row(steps[1]["actions"][0]) == Action("Swipe", point=(750, 500), end=(250, 500))
    assert episode["final_screenshot"]["bytes"] == picture(12)


@pytest.mark.parametrize("form", ["UTF-8 with a mark", "UTF-16", "a document", "Parquet", "line ends of Windows"])
def test_form_does_not_matter(form: str, tmp_path: Path) -> None:
    batch = write_agentnet(tmp_path / "batch")
    take(batch, tmp_path / "out")
    expected = imported_ids(tmp_path / "out" / "batch")
    path = batch / "agentnet.jsonl"
    text = path.read_text(encoding="utf-8")
    if form == "UTF-8 with a mark":
        path.write_text(text, encoding="utf-8-sig")
    elif form == "UTF-16":
        path.write_text(text, encoding="utf-16")
    elif form == "line ends of Windows":
        path.write_bytes(text.encode().replace(b"\n", b"\r\n"))
    elif form == "a document":
        path.unlink()
        (batch / "agentnet.json").write_text(json.dumps([json.loads(line) for line in text.splitlines()], indent=1))
    else:
        import pyarrow as pa

        path.unlink()
        pq.write_table(pa.Table.from_pylist([json.loads(line) for line in text.splitlines()]), batch / "train.parquet")
    take(batch, tmp_path / "out")
    assert imported_ids(tmp_path / "out" / "batch") == expected


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_other_pictures_become_png(form: str, tmp_path: Path) -> None:
    batch = write_android(tmp_path / "batch", [1])
    (batch / "images" / "1_0.png").write_bytes(picture(1, form=form))
    take(batch, tmp_path / "out")
    ((_, steps),) = read(tmp_path / "out")
    assert [step["screenshot"]["bytes"][:4] for step in steps] == [b"\x89PNG"] * 3


# --- actions ----------------------------------------------------------------------------------------------------------

PLACES = st.tuples(st.integers(0, 999), st.integers(0, 999))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def as_code(action: Action) -> str:
    """An action of a desktop as a person's recording has it."""
    at = [to_coordinates(point, "unit") for point in action.points()]
    match action.name:
        case "Drag":
            return (
                f"pyautogui.moveTo(x={at[0][0]}, y={at[0][1]})\npyautogui.dragTo({at[1][0]}, {at[1][1]}, button='left')"
            )
        case "Type":
            return f"pyautogui.write(message={action.content!r})"
        case "Hotkey":
            return f"pyautogui.hotkey({list(action.keys)!r})"
        case "Wait":
            return "computer.wait()"
        case "Finished":
            return "computer.terminate(status='success')"
    name = {"Click": "click", "DoubleClick": "doubleClick", "RightClick": "rightClick"}[action.name]
    return f"pyautogui.{name}(x={at[0][0]}, y={at[0][1]})"


@given(
    st.one_of(
        st.builds(Action, st.sampled_from(["Click", "DoubleClick", "RightClick"]), point=PLACES),
        st.builds(Action, st.just("Drag"), point=PLACES, end=PLACES),
        st.builds(Action, st.just("Type"), content=TEXTS),
        st.builds(
            Action,
            st.just("Hotkey"),
            keys=st.lists(st.sampled_from(["ctrl", "shift", "a", "+", "f5"]), min_size=1).map(tuple),
        ),
        st.sampled_from([Action("Wait"), Action("Finished", content="")]),
    )
)
def test_what_a_recording_says_is_what_is_read(action: Action) -> None:
    actions, _ = to_actions(as_code(action))
    assert actions == (action,)
    check_action(action, "desktop")


@given(st.one_of(st.text(max_size=60), st.text("pyautogui.click(x=0,1-9)[]'\"\n", max_size=60)))
@example("__import__('os').system('touch /tmp/owned')")
@example("pyautogui.click(x=__import__('os').getpid(), y=0.5)")
@example("pyautogui.write(message='a' * 10 ** 9)")
@example("(" * 5000)
@example("-" * 5000 + "1")
@example("pyautogui.click(x=1e999, y=0)")
@example("exec('1')\npyautogui.click(0.5, 0.5)")
@example("pyautogui.click(x=0.5, y=0.5) if True else 0")
def test_code_is_understood_or_refused_and_never_run(code: str) -> None:
    try:
        actions, _ = to_actions(code, (500, 500))
    except Rejected:
        return
    for action in actions:
        check_action(action, "desktop")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pyautogui.click(x=1.01, y=0.5)", "outside the screen"),
        ("pyautogui.click(x=640, y=360)", "outside the screen"),
        ("pyautogui.click(x=-0.1, y=0.5)", "outside the screen"),
        ("computer.tripleClick(x=0.5, y=0.5)", "unknown action: 3 clicks"),
        ("pyautogui.middleClick(x=0.5, y=0.5)", "unknown action: 1 clicks of the 'middle'"),
        ("pyautogui.moveTo(x=0.5, y=0.5)", "a moveTo with nothing"),
        ("pyautogui.dragTo(x=0.5, y=0.5)", "where it starts"),
        ("pyautogui.keyDown('shift')", "unknown action: pyautogui.keyDown"),
        ("pyautogui.press('hyper')", "no key 'hyper'"),
        ("computer.terminate(status='maybe')", "status 'maybe'"),
        ("", "does nothing"),
        ("pyautogui.click(x=0.5)", "half a place"),
        ("pyautogui.click(x=True, y=0.5)", "is a number"),
    ],
)
def test_code_outside_the_action_space_is_named(code: str, reason: str) -> None:
    with pytest.raises(Rejected, match=re.escape(reason)):
        to_actions(code)


def test_a_wheel_turns_where_the_pointer_is() -> None:
    actions, pointer = to_actions("pyautogui.moveTo(x=0.5, y=0.1)\npyautogui.scroll(-3)")
    assert actions == (Action("Swipe", point=(500, 100), end=(500, 0)),)
    assert to_actions("pyautogui.scroll(3)", pointer)[0] == (Action("Swipe", point=(500, 100), end=(500, 350)),)
    assert to_actions("pyautogui.hscroll(3)", pointer)[0] == (Action("Swipe", point=(500, 100), end=(250, 100)),)
    with pytest.raises(Rejected, match="doesn't say where"):
        to_actions("pyautogui.scroll(3)")


@given(
    st.integers(1, 4000),
    st.integers(1, 4000),
    st.integers(-100_000, 40_100_000).map(lambda parts: parts / 10_000),
    st.integers(-100_000, 40_100_000).map(lambda parts: parts / 10_000),
)
def test_a_pixel_is_in_the_thousandth_that_it_is_read_as_or_refused(w: int, h: int, x: float, y: float) -> None:
    content = {"action": "click", "coordinate": [x, y]}
    if 0 <= x <= w and 0 <= y <= h:
        action = to_action(content, (w, h))
        assert action.point is not None
        for value, number, extent in zip((x, y), action.point, (w, h), strict=True):
            assert 0 <= number <= 999
            assert number * extent / 1000 <= value + 1e-6
            assert value <= (number + 1) * extent / 1000 + 1e-6
        assert action.point != REFUSAL
    else:
        with pytest.raises(Rejected, match="outside the screen"):
            to_action(content, (w, h))


REAL = Path(os.environ.get("HESPER_BENCHMARK_DATA", "")) / "androidcontrol" / "android_control_evaluation_std.jsonl"
SCREENS = ((1080, 2400), (1440, 3120))


def real_episodes() -> Iterator[tuple[dict[str, Any], tuple[int, int]]]:
    """Each episode of the published file and the screen it was recorded on: its scrolls go over a known share of it."""
    with REAL.open(encoding="utf-8") as stream:
        for line in stream:
            episode = json.loads(line)
            contents = [step["action_content"] for step in episode["steps"]]
            places = [c[key] for c in contents for key in ("coordinate", "coordinate2") if key in c]
            fits = all(x <= SCREENS[0][0] and y <= SCREENS[0][1] for x, y in places)
            yield episode, SCREENS[0 if fits else 1]


@pytest.mark.skipif(not (os.environ.get("HESPER_BENCHMARK_DATA") and REAL.is_file()), reason="no benchmark data")
def test_every_action_of_the_published_androidcontrol_file_has_its_place_in_our_space(tmp_path: Path) -> None:
    count = 0
    for episode, screen in real_episodes():
        for step in episode["steps"]:
            check_action(to_action(step["action_content"], screen), "mobile")
            count += 1
    assert count == 8444
    batch = tmp_path / "batch"
    (batch / "images").mkdir(parents=True)
    rows = []
    for _, (episode, screen) in zip(range(4), real_episodes(), strict=False):
        rows.append(episode)
        for index, step in enumerate(episode["steps"]):
            name = Path(step["screenshot"]).name
            (batch / "images" / name).write_bytes(picture(20 * episode["episode_id"] + index, screen))
    shutil.copyfile(REAL, batch / "android_control_evaluation_std.jsonl")
    out = tmp_path / "out"
    out.mkdir()
    limits = LIMITS.model_copy(update={"picture_pixels": 10_000_000})
    done = import_batch(batch, out, limits, 3, {}, "0" * 64)
    assert done.episodes == 4
    assert done.rejections == 1543 - 4
    assert all("missing picture" in reason["reason"] for reason in reasons(out))
    assert [row["instruction"] for row, _ in sorted(read(out), key=lambda e: e[0]["task_id"])] == [
        row["goal"] for row in sorted(rows, key=lambda row: f"androidcontrol/{row['episode_id']}")
    ]


# --- what is not taken ------------------------------------------------------------------------------------------------


def line(batch: Path, name: str, number: int, change: Callable[[Any], Any]) -> None:
    """Change one record of a JSON Lines file."""
    lines = (batch / name).read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[number - 1])
    lines[number - 1] = json.dumps(change(row) or row, ensure_ascii=False)
    (batch / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def raw_line(batch: Path, name: str, number: int, raw: bytes) -> None:
    lines = (batch / name).read_bytes().split(b"\n")
    lines[number - 1] = raw
    (batch / name).write_bytes(b"\n".join(lines))


def step_of(kind: str, row: dict[str, Any], index: int) -> dict[str, Any]:
    step: dict[str, Any] = row["steps" if kind == "androidcontrol" else "traj"][index]
    return step


FILES = {"androidcontrol": "episodes.jsonl", "agentnet": "agentnet.jsonl"}
PICTURES = {"androidcontrol": "images/2_1.png", "agentnet": "images/shot-2-1.png"}
PICTURE_KEYS = {"androidcontrol": "screenshot", "agentnet": "image"}


def broken_json(kind: str, batch: Path) -> None:
    raw_line(batch, FILES[kind], 2, b'{"goal": "half a reco')


def other_encoding(kind: str, batch: Path) -> None:
    raw = (batch / FILES[kind]).read_text(encoding="utf-8").splitlines()[1]
    raw_line(batch, FILES[kind], 2, raw.replace("2", "第二").encode("gb18030"))


def half_character(kind: str, batch: Path) -> None:
    key = "goal" if kind == "androidcontrol" else "instruction"
    raw_line(batch, FILES[kind], 2, json.dumps({**json.loads(
        (batch / FILES[kind]).read_text(encoding="utf-8").splitlines()[1]), key: "\ud800"}).encode())  # fmt: skip


def not_a_number(kind: str, batch: Path) -> None:
    raw_line(batch, FILES[kind], 2, b'{"goal": "x", "steps": [{"action_content": {"coordinate": [NaN, 1]}}]}')


def long_line(kind: str, batch: Path) -> None:
    raw_line(batch, FILES[kind], 2, b'{"goal": "' + b"x" * (LIMITS.line_bytes + 1) + b'"}')


def deep_json(kind: str, batch: Path) -> None:
    raw_line(batch, FILES[kind], 2, b"[" * 90_000)


def missing_picture(kind: str, batch: Path) -> None:
    (batch / PICTURES[kind]).unlink()


def broken_picture(kind: str, batch: Path) -> None:
    path = batch / PICTURES[kind]
    path.write_bytes(path.read_bytes()[:-30])


def no_picture(kind: str, batch: Path) -> None:
    (batch / PICTURES[kind]).write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg'/>")


def bomb_picture(kind: str, batch: Path) -> None:
    (batch / PICTURES[kind]).write_bytes(bomb(60_000, 60_000))


def huge_picture(kind: str, batch: Path) -> None:
    with (batch / PICTURES[kind]).open("wb") as stream:
        stream.truncate(2 << 30)  # sparse: the file system stores nothing of it


def linked_picture(kind: str, batch: Path) -> None:
    (batch / PICTURES[kind]).unlink()
    (batch / PICTURES[kind]).symlink_to("/etc/passwd")


def traversal(kind: str, batch: Path) -> None:
    line(batch, FILES[kind], 2, lambda row: step_of(kind, row, 1).update({PICTURE_KEYS[kind]: "../../etc/passwd"}))


def absolute(kind: str, batch: Path) -> None:
    line(batch, FILES[kind], 2, lambda row: step_of(kind, row, 1).update({PICTURE_KEYS[kind]: "/etc/passwd"}))


def outside(kind: str, batch: Path) -> None:
    def move(row: dict[str, Any]) -> None:
        if kind == "androidcontrol":
            row["steps"][1]["action_content"]["coordinate"] = [54, 241]
        else:
            row["traj"][1]["value"]["code"] = "pyautogui.click(x=0.5, y=1.2)"

    line(batch, FILES[kind], 2, move)


def unknown_action(kind: str, batch: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        if kind == "androidcontrol":
            row["steps"][1]["action_content"] = {"action": "shake"}
        else:
            row["traj"][1]["value"]["code"] = "pyautogui.shake()"

    line(batch, FILES[kind], 2, change)


def duplicate_id(kind: str, batch: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        row["episode_id" if kind == "androidcontrol" else "task_id"] = 1 if kind == "androidcontrol" else "2024_1"

    line(batch, FILES[kind], 2, change)


def duplicate_content(kind: str, batch: Path) -> None:
    row = (android_episode if kind == "androidcontrol" else agentnet_task)(1)
    row["episode_id" if kind == "androidcontrol" else "task_id"] = "9"
    raw_line(batch, FILES[kind], 2, json.dumps(row).encode())


def no_instruction(kind: str, batch: Path) -> None:
    line(batch, FILES[kind], 2, lambda row: row.update({"goal": "", "instruction": " "}))


def no_step(kind: str, batch: Path) -> None:
    line(batch, FILES[kind], 2, lambda row: row.update({"steps": [], "traj": []}))


CORRUPTIONS: list[tuple[Callable[[str, Path], None], str, dict[str, Any]]] = [
    (broken_json, "broken JSON", {"line": 2}),
    (other_encoding, "not UTF-8", {"line": 2}),
    (half_character, "half a character", {"line": 2}),
    (not_a_number, "NaN is no number", {"line": 2}),
    (long_line, "longer than", {"line": 2}),
    (deep_json, "nested too deeply", {"line": 2}),
    (missing_picture, "missing picture", {"line": 2, "step": 1}),
    (broken_picture, "is broken", {"line": 2, "step": 1}),
    (no_picture, "is broken", {"line": 2, "step": 1}),
    (bomb_picture, "unpacks to 60000x60000 pixels, more than 500000", {"line": 2, "step": 1}),
    (huge_picture, "has 2147483648 bytes", {"line": 2, "step": 1}),
    (linked_picture, "missing picture", {"line": 2, "step": 1}),
    (traversal, "path traversal", {"line": 2, "step": 1}),
    (absolute, "a path outside the batch", {"line": 2, "step": 1}),
    (outside, "outside the screen", {"line": 2, "step": 1}),
    (unknown_action, "unknown action", {"line": 2, "step": 1}),
    (duplicate_id, "duplicate id", {"line": 2}),
    (duplicate_content, "duplicate: the same episode is at", {"line": 2}),
    (no_instruction, "no instruction", {"line": 2}),
    (no_step, "", {"line": 2}),
]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(("spoil", "reason", "place"), CORRUPTIONS, ids=[case[0].__name__ for case in CORRUPTIONS])
def test_a_bad_record_is_set_aside_with_reason_and_place_and_the_rest_goes_on(
    kind: str, spoil: Callable[[str, Path], None], reason: str, place: dict[str, Any], tmp_path: Path
) -> None:
    batch = WRITERS[kind](tmp_path / "batch")
    spoil(kind, batch)
    done, rejected = take(batch, tmp_path / "out")
    assert done.episodes == 2
    assert sorted(row["task_id"] for row, _ in read(tmp_path / "out")) == [
        f"{kind}/{name}" for name in (("1", "3") if kind == "androidcontrol" else ("2024_1", "2024_3"))
    ]
    (found,) = [item for item in rejected if "line" in item]
    assert reason in found["reason"]
    assert {key: found.get(key) for key in place} == place
    assert found["file"] == FILES[kind]
    if "kept" in found:
        kept = tmp_path / "out" / "rejected" / found["kept"]
        assert kept.read_bytes().rstrip() in (batch / FILES[kind]).read_bytes()
    if spoil in (broken_picture, no_picture, bomb_picture, huge_picture):
        kept = tmp_path / "out" / "rejected" / found["picture"]
        assert kept.stat().st_size == (batch / PICTURES[kind]).stat().st_size
    if spoil is linked_picture:
        assert any("is a link" in item["reason"] or "a link" in item["reason"] for item in rejected)


def change_step(number: int, **values: Any) -> Callable[[Path], None]:
    def spoil(batch: Path) -> None:
        rows = [own_rows(index) for index in (1, 2, 3)]
        rows[1][1][number].update(values)
        write_tables(batch, rows)

    return spoil


def change_episode(**values: Any) -> Callable[[Path], None]:
    def spoil(batch: Path) -> None:
        rows = [own_rows(index) for index in (1, 2, 3)]
        rows[1][0].update(values)
        write_tables(batch, rows)

    return spoil


def broken_row_group(batch: Path) -> None:
    path = batch / "steps.parquet"
    raw = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(1).column(5)  # a column of pictures: the second episode's
    start = column.dictionary_page_offset or column.data_page_offset
    raw[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(raw))


def doubled_step(batch: Path) -> None:
    rows = [own_rows(index) for index in (1, 2, 3)]
    rows[1][1].append(dict(rows[1][1][1]))
    write_tables(batch, rows)


def click(x: int, y: int, name: str = "Click") -> dict[str, Any]:
    row = dict(own_rows(1)[1][0]["actions"][0])
    return {**row, "name": name, "point": [x, y]}


OWN: list[tuple[str, Callable[[Path], None], str]] = [
    ("outside the screen", change_step(0, actions=[click(1000, 5)]), "outside the screen"),
    ("unknown action", change_step(0, actions=[click(5, 5, "Teleport")]), "unknown action: 'Teleport'"),
    ("other platform", change_step(0, actions=[click(5, 5, "RightClick")]), "mobile has no RightClick"),
    ("contradiction", change_step(0, actions=[click(5, 5)]), "says something else than the actions"),
    ("box", change_step(0, boxes=[[40.0, 100.0, 70.0, 999.0]]), "is not on the screen"),
    ("size", change_step(0, width=999), "the screen is said to be"),
    ("bomb", change_step(0, screenshot={"bytes": bomb(60_000, 60_000), "path": "x"}), "decompression bomb"),
    ("no picture", change_step(0, screenshot={"bytes": None, "path": None}), "missing picture"),
    ("traversal", change_step(0, screenshot={"bytes": None, "path": "../x.png"}), "path traversal"),
    ("gap", change_step(1, index=5), "the episode says 2 steps"),
    ("doubled step", doubled_step, "duplicate id: steps of 'e2'"),
    ("duplicate id", change_episode(id="e1"), "duplicate id: 'e1'"),
    ("platform", change_episode(platform="tv"), "its platform is"),
    ("no instruction", change_episode(instruction=""), "its instruction is"),
    ("broken row group", broken_row_group, "broken Parquet"),
]


@pytest.mark.parametrize(("spoil", "reason"), [case[1:] for case in OWN], ids=[case[0] for case in OWN])
def test_a_bad_row_of_our_own_tables_is_set_aside_and_the_rest_goes_on(
    spoil: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    batch = write_own(tmp_path / "batch")
    spoil(batch)
    _, rejected = take(batch, tmp_path / "out")
    assert sorted(row["task_id"] for row, _ in read(tmp_path / "out")) == ["hesper/task-1", "hesper/task-3"]
    assert any(reason in item["reason"] and {"row", "file"} <= set(item) for item in rejected), rejected


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_are_none_of_a_batch_are_set_aside_alone(kind: str, tmp_path: Path) -> None:
    batch = WRITERS[kind](tmp_path / "batch")
    (batch / "README.md").write_text("About it.")
    (batch / "run.py").write_text("raise SystemExit")
    (batch / "more.parquet").write_bytes(b"PAR1 not really")
    (batch / "link.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(batch / "pipe.json")
    done, rejected = take(batch, tmp_path / "out")
    assert done.episodes == 3
    found = {item["file"]: item for item in rejected}
    assert set(found) == {"run.py", "more.parquet", "link.jsonl", "pipe.json"}
    assert (tmp_path / "out" / "rejected" / found["run.py"]["kept"]).read_text() == "raise SystemExit"
    assert "kept" not in found["link.jsonl"]


def test_a_batch_of_which_nothing_is_good_is_refused_with_its_reasons(tmp_path: Path) -> None:
    batch = write_android(tmp_path / "batch")
    shutil.rmtree(batch / "images")
    with pytest.raises(InputError, match=r"nothing of it can be taken \(androidcontrol\).*missing picture"):
        take(batch, tmp_path / "out")
    assert len(reasons(tmp_path / "out")) == 3
    (batch / "episodes.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match="no reader knows the format"):
        take(batch, tmp_path / "out")


def test_episodes_that_came_before_are_known_by_their_content(tmp_path: Path) -> None:
    take(write_android(tmp_path / "one", [1, 2]), tmp_path / "out")
    known = dict.fromkeys(imported_ids(tmp_path / "out" / "batch"), "monday")
    done, rejected = take(write_android(tmp_path / "two", [2, 3]), tmp_path / "out", known)
    assert done.episodes == 1
    assert [item["reason"] for item in rejected] == ["duplicate: the same episode came with the batch monday"]


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([b"{}", b'{"a": 1}', b"[1]", b"\xff{}"])), max_size=8)
)
def test_every_line_is_a_row_or_is_set_aside(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    lines = [b"{}", *(raw.replace(b"\n", b" ").replace(b"\r", b" ") for raw in lines)]
    batch = tmp_path_factory.mktemp("batch")
    (batch / "rows.jsonl").write_bytes(b"\n".join(lines))
    found = list(BatchFiles(batch, LIMITS).rows("rows.jsonl"))
    numbers = [item.place.line for item in found]
    assert numbers == [number for number, raw in enumerate(lines, 1) if raw.strip()]
    assert all(isinstance(item, Row | Rejection) for item in found)


# --- what is decided about an episode ---------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1, max_size=12), max_size=4))
def test_a_split_is_of_the_apps_alone_and_one_heldout_app_holds_out(apps: list[str]) -> None:
    split = split_of(apps, 0.5)
    assert split == split_of(list(reversed(apps)), 0.5) == split_of([f"  {app} " for app in apps], 0.5)
    assert split == ("heldout" if any(split_of([app], 0.5) == "heldout" for app in apps) else "train")


def test_apps_of_our_own_catalogue_keep_their_split() -> None:
    heads = list(load_heads().values())
    assert {head.split for head in heads} == {"train", "heldout"}
    assert all(split_of([head.id], 0.5) == head.split for head in heads)
    assert split_of(["miniwob/click-test-2"], 0.0) == "heldout"
    assert split_of([], 1.0) == "train"
    shares = [split_of([f"app {number}"], 0.2) for number in range(2000)]
    assert 0.16 < shares.count("heldout") / len(shares) < 0.24


def test_a_chinese_character_makes_a_chinese_instruction() -> None:
    assert [locale_of(text) for text in ("Sort it", "打开 Notes", "Où est-ce?", "𠮷", "ｆｕｌｌ")] == [
        "en", "zh", "en", "zh", "en",
    ]  # fmt: skip
