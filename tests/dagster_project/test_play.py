"""`hesper play`: a person at the page, and what is recorded of it."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from playwright.sync_api import Page, sync_playwright

from assets.agent.actions import action_from_row
from assets.agent.grammar import parse_response
from assets.environments.adb.phones import Phones
from assets.environments.chromium import find_chromium
from assets.environments.trajectory import episodes_schema, steps_schema

PROJECT = Path(__file__).parents[2]


@contextmanager
def playing(app: str, out: Path, temporary: Path, root: Path = PROJECT) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command and its address."""
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "dagster_project.cli", "play", app, "--out", str(out), "--size", "192x192"],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(temporary), "HESPER_ROOT": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "it did not start"
        yield process, address
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def person() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.set_default_timeout(120_000)
        yield page
        browser.close()


def recorded(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    episodes, steps = (pq.read_table(folder / f"{name}.parquet") for name in ("episodes", "steps"))
    assert episodes.schema.equals(episodes_schema())
    assert steps.schema.equals(steps_schema())
    (episode,) = episodes.to_pylist()
    return episode, steps.to_pylist()


def wait_for_steps(page: Page, count: int) -> None:
    page.wait_for_function("count => document.querySelectorAll('#log li').length === count", arg=count)


def test_a_phone_app_is_played_and_recorded(person: Page, tmp_path: Path) -> None:
    with playing("bank-zh", tmp_path / "played", tmp_path / "tmp") as (process, address):
        person.goto(address)
        screen = person.locator("#screen")
        person.wait_for_function("document.getElementById('screen').naturalWidth === 192")
        person.locator("#instruction").fill("打开支付")
        person.locator("#instruction").press("Tab")
        person.locator("#think").fill("支付")
        screen.click(position={"x": 55, "y": 31})
        wait_for_steps(person, 1)
        screen.focus()
        person.keyboard.type('it\'s \\"x"')
        wait_for_steps(person, 2)
        person.mouse.move(*_middle(screen.bounding_box()))
        person.mouse.wheel(0, 300)
        wait_for_steps(person, 3)
        person.get_by_role("button", name="Back", exact=True).click()
        wait_for_steps(person, 4)
        person.get_by_role("button", name="Done").click()
        wait_for_steps(person, 5)
        assert "Saved" in person.locator("#note").inner_text()
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(120) == 0
    folder = tmp_path / "played" / "bank-zh-001"
    assert said.strip() == f"recorded in {folder}"
    episode, steps = recorded(folder)
    assert (episode["instruction"], episode["outcome"], episode["claimed"], episode["policy"]) == (
        "打开支付", "success", True, "person",
    )  # fmt: skip
    assert [step["actions"][0]["name"] for step in steps] == ["Click", "Type", "Swipe", "PressBack", "Finished"]
    click, typed = steps[0], steps[1]
    assert click["think"] == "支付"
    assert click["actions"][0]["point"] == [286, 161]
    (box,) = click["boxes"]
    assert box[0] <= 55 < box[2]
    assert box[1] <= 31 < box[3]
    assert click["state_before"] != click["state_after"] == typed["state_before"]
    assert typed["actions"][0]["content"] == 'it\'s \\"x"'
    for step in steps:
        assert parse_response(step["response"], "mobile").actions == (action_from_row(step["actions"][0]),)
    assert [len(step["history"]) for step in steps] == [0, 1, 2, 3, 4]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("app", ["store-en", "miniwob/click-test", "desktop"])
def test_other_platforms_are_played_too(app: str, person: Page, tmp_path: Path) -> None:
    if app == "desktop":
        from assets.environments.catalogue import catalogue

        app = next(app.id for app in catalogue() if app.kind == "desktop" and app.scale == "small")
    with playing(app, tmp_path / "played", tmp_path / "tmp") as (process, address):
        person.goto(address)
        person.wait_for_function("document.getElementById('screen').naturalWidth === 192")
        person.locator("#screen").click(position={"x": 96, "y": 96})
        wait_for_steps(person, 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    (folder,) = (tmp_path / "played").iterdir()
    episode, steps = recorded(folder)
    assert (episode["app"], episode["outcome"], episode["claimed"], episode["steps"]) == (app, "failure", False, 1)
    assert steps[0]["actions"][0]["point"] == [500, 500]
    if app.startswith("miniwob/"):
        assert episode["instruction"] == "Click the button."


def test_an_app_of_a_phone_that_is_named_is_played_though_the_phone_has_nothing_of_ours(tmp_path: Path) -> None:
    with closing(Phones()) as elsewhere:
        serial = elsewhere.add((180, 240), program=False)
        named = {"adb": f"127.0.0.1:{elsewhere.port}", "serial": serial, "apps": {"信息": "org.hesper.mail_en"}}
        root = tmp_path / "project"
        root.mkdir()
        (root / "dvc.yaml").symlink_to(PROJECT / "dvc.yaml")
        parameters = yaml.safe_load((PROJECT / "params.yaml").read_text(encoding="utf-8"))
        parameters["phone"] = {**named, "settle_seconds": 0.0}
        (root / "params.yaml").write_text(yaml.safe_dump(parameters), encoding="utf-8")
        with playing("信息", tmp_path / "played", tmp_path / "tmp", root) as (process, address):
            with urllib.request.urlopen(f"{address}screen", timeout=120) as answer:
                assert struct.unpack(">II", answer.read()[16:24]) == (180, 240)
            home = json.dumps({"action": "PressHome()"}).encode()
            urllib.request.urlopen(f"{address}act", home, timeout=120).close()
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
    (folder,) = (tmp_path / "played").iterdir()
    episode, (step,) = recorded(folder)
    assert (episode["app"], episode["platform"], episode["locale"]) == ("信息", "mobile", "zh")
    assert step["actions"][0]["name"] == "PressHome"
    assert step["state_before"] != step["state_after"]


def test_only_who_knows_the_address_may_play(tmp_path: Path) -> None:
    with playing("store-en", tmp_path / "played", tmp_path / "tmp") as (_, address):
        origin, secret = address.rstrip("/").rsplit("/", 1)

        def ask(url: str, data: dict[str, str] | None = None, **headers: str) -> int:
            body = None if data is None else json.dumps(data).encode()
            try:
                with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=120) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        click = {"action": "Click(point=(0.5, 0.5))"}
        assert ask(address) == 200
        assert ask(f"{origin}/") == ask(f"{origin}/screen") == ask(f"{origin}/{secret}x/") == 403
        assert ask(address, Host="evil.test") == 403
        assert ask(f"{address}act", click, Origin="http://evil.test") == 403
        assert ask(f"{address}nothing") == 404
        assert ask(f"{address}act", {"action": "Click(point=(412, 87))"}) == 400
        assert ask(f"{address}act", {"action": "PressHome()"}) == 400
        assert ask(f"{address}act", click) == 200


def test_an_app_that_is_not_there_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "play", "bank"], cwd=PROJECT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "no app 'bank'; did you mean" in done.stderr
    assert "bank-zh" in done.stderr


def _middle(box: Any) -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
