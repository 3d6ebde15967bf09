"""`hesper view` in a real browser: the catalogue of apps, and trajectories."""

from __future__ import annotations

import io
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from assets.agent.actions import Action
from assets.environments.chromium import find_chromium
from assets.environments.environments import apps_schema
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.errors import InputError, ParameterError
from assets.stage import write_parquet
from dagster_project.view.environments import write_environments
from dagster_project.view.trajectories import STAGES, choose, find_table, write_trajectories
from dagster_project.view.trajectory_table import TrajectoryTable
from tests.dagster_project.tables import (
    CLICK,
    episode,
    padded,
    report,
    said,
    screen,
    served,
    step,
    wait_until,
    write_table,
)


def picture(color: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (360, 720), color).save(buffer, "PNG")
    return buffer.getvalue()


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"app-{number}", "platform": "mobile", "kind": "phone", "title": f"App {number}", "locale": "en",
        "split": "train", "category": "notes", "scale": "full", "source": "apps/x.yaml",
        "screens": ["start", "dialog:ask"], "reached": ["start", "dialog:ask"], "elements": 5, "actions": 7,
        "tile": number, "digest": "0" * 16, "trouble": "", "fault": "",
        "screenshot": {"bytes": picture("teal"), "path": "x.png"}, **changes,
    }  # fmt: skip


APPS = [
    *(row(number) for number in range(300)),
    row(300, title="</script><b>银行", category="banking", locale="zh"),
    row(301, platform="web", kind="site", scale="small", reached=["start"], trouble="not reached: dialog:ask",
        fault="app"),
    row(302, platform="desktop", kind="desktop", screenshot=None, trouble="no power", fault="infrastructure"),
]  # fmt: skip


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "data" / "environments").mkdir(parents=True)
    write_parquet(root / "data" / "environments" / "apps.parquet", APPS, apps_schema())
    return write_environments(root)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, catalogue: Path) -> Iterator[Page]:
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not _own(request.url) else None)
    page.goto(catalogue.as_uri())
    yield page
    assert problems == []
    page.close()


def _own(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))


def test_the_catalogue_is_searched_filtered_and_looked_at(page: Page) -> None:
    assert page.locator("#count").inner_text() == "303 apps"
    assert page.locator(".app img").count() == 302
    page.get_by_label("Search").fill("银行 dialog:ask")
    expect(page.locator(".app:visible b")).to_have_text(["</script><b>银行"])
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function("document.getElementById('count').textContent === '303 apps'")
    page.get_by_label("platform").select_option("web")
    expect(page.locator(".app:visible b")).to_have_text(["App 301"])
    page.locator("summary").click()
    assert "mobile" not in page.locator("#coverage").inner_text()
    page.locator(".app:visible").click()
    facts = page.locator("dialog").inner_text()
    assert "not reached: dialog:ask (app)" in facts
    assert "hesper play app-301" in facts
    assert page.locator("dialog .chip.missing").all_inner_texts() == ["dialog:ask"]
    page.get_by_role("button", name="Close").click()
    page.reload()
    expect(page.locator(".app:visible b")).to_have_text(["App 301"])  # the address keeps the filters


def test_coverage_counts_and_leads_to_apps(page: Page) -> None:
    page.locator("summary").click()
    table = page.locator("#coverage table").first
    assert table.locator("tr").nth(2).inner_text().split() == ["mobile", "301", "301", "602", "602"]
    page.locator("#coverage").get_by_role("button", name="banking").click()
    assert page.locator("#count").inner_text() == "1 of 303 apps"
    page.get_by_label("category").select_option("")
    page.get_by_label("probe").select_option("infrastructure")
    expect(page.locator(".app:visible b")).to_have_text(["App 302"])


def test_the_page_is_fast(page: Page) -> None:
    begun = time.monotonic()
    page.get_by_label("Search").fill("app 12")
    assert page.locator("#count").inner_text() == "13 of 303 apps"
    assert time.monotonic() - begun < 5


def test_without_a_catalogue_there_is_nothing_to_see(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hesper run environments"):
        write_environments(tmp_path)


# --- trajectories -----------------------------------------------------------------------------------------------------

TAGS = "<img src=x onerror=\"document.title='owned'\"></script><b>bold</b><!--"
LONG = 600
STATES = {
    "state_before": '{"alarm": {"on": false, "at": "7:00"}}',
    "state_after": '{"alarm": {"on": true, "at": "7:00"}}',
}
KEYPOINTS = [
    {"keypoint": "Alarm on", "status": "met", "step": 0, "judge": "ocr", "evidence": "reads “On”"},
    {"keypoint": "Saved", "status": "missing", "step": -1, "judge": "change", "evidence": TAGS},
    {"keypoint": "At 7:00", "status": "contradicted", "step": 2, "judge": "ocr", "evidence": "reads “8:00”"},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes: one to look at closely, one full of tags, one that lacks what can lack, and a long one."""
    swipe = Action("Swipe", point=(500, 800), end=(500, 200))
    write = Action("Type", content="7:00")
    steps = [
        step("alarm", 0, CLICK, think="Switch it on", boxes=[[9.0, 40.0, 171.0, 120.0]], **STATES),
        step("alarm", 1, swipe, think="Further down", step_verdict="exploratory", state_after="a" * 16),
        step("alarm", 2, write, think="Seven", step_verdict="incorrect"),
        step("evil", 0, CLICK, think=TAGS, response=TAGS),
        step("lacking", 0, think="", picture=None, boxes=[[float("nan")] * 4], step_verdict=None),
        step("lacking", 1, Action("Click", point=(-1, -1)), picture=b"<svg onload='alert(1)'>"),
        *(step("long", index, CLICK, picture=screen(index % 7)) for index in range(LONG)),
        step("of nobody", 0, CLICK),
    ]
    votes = [
        {"judge": "ocr", "vote": True, "confidence": 0.875, "reason": "all there"},
        {"judge": "change", "vote": False, "confidence": float("nan"), "reason": TAGS},
    ]
    episodes = [
        episode("alarm", 3, votes=votes, verdict="partial", instruction="Set the alarm", outcome="failure"),
        episode("evil", instruction=TAGS, platform="web", app="shop", policy="random"),
        episode("lacking", 2, final=None, verdict="failed", votes=[], instruction="闹钟", policy="random"),
        episode("long", LONG),
    ]
    reports = [
        report("alarm", for_review=True, verdict="partial", disagreement=0.8, keypoints=KEYPOINTS),
        report("evil"),
    ]
    return write_table(tmp_path_factory.mktemp("tables") / "judged", episodes, steps, reports, row_group=3)


@pytest.fixture(scope="module")
def address(table: Path) -> Iterator[str]:
    with served("view", str(table)) as (_, address):
        yield address


@pytest.fixture
def viewer(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))

    def own(url: str) -> bool:
        return _own(url) or url.startswith(address)

    page.on("request", lambda request: problems.append(request.url) if not own(request.url) else None)
    page.goto(address)
    page.locator(".frame img").first.wait_for()
    yield page
    assert problems == []
    page.close()


def instructions(page: Page) -> list[str]:
    return page.locator(".card b").all_inner_texts()


def wait_for_count(page: Page, text: str) -> None:
    expect(page.locator("#count")).to_have_text(text, timeout=30_000)


def test_an_episode_is_a_filmstrip_and_a_step_opens_large(viewer: Page) -> None:
    first = viewer.locator(".card").first
    assert [" ".join(text.split()) for text in first.locator(".frame").all_inner_texts()] == [
        "Click ✓ correct", "Swipe ~ exploratory", "Type “7:00” ✗ incorrect", "end",
    ]  # fmt: skip
    assert first.locator(".chip").all_inner_texts()[:3] == ["~ partial", "~ to review", "outcome: failure"]
    first.locator(".frame").first.click()
    stage, facts = viewer.locator("dialog .stage"), viewer.locator("dialog .facts")
    stage.locator("img").wait_for()
    ring = stage.locator("circle.mark").bounding_box()
    shown = stage.locator("img").bounding_box()
    assert ring is not None
    assert shown is not None
    assert (ring["x"] + ring["width"] / 2 - shown["x"]) / shown["width"] == pytest.approx(0.5005, abs=0.004)
    assert (ring["y"] + ring["height"] / 2 - shown["y"]) / shown["height"] == pytest.approx(0.2505, abs=0.004)
    assert shown["height"] / shown["width"] == pytest.approx(320 / 180, abs=0.02)
    box = stage.locator("rect.box")
    assert [box.get_attribute(name) for name in ("x", "y", "width", "height")] == ["5%", "12.5%", "90%", "25%"]
    assert "Click(point=(500, 250))" in facts.inner_text()
    assert "Switch it on" in facts.inner_text()
    assert facts.locator("pre").is_hidden()
    facts.get_by_text("Raw response").click()
    assert facts.locator("pre").inner_text() == "<think>Switch it on</think>\n<action>Click(point=(500, 250))</action>"
    changes = facts.locator("section", has_text="changed").locator("tbody tr")
    assert [row.split() for row in changes.all_inner_texts()] == [["alarm.on", "false", "true"]]
    votes = [
        row.split("\t") for row in facts.locator("section", has_text="Votes").locator("tbody tr").all_inner_texts()
    ]
    assert votes == [["ocr", "✓ yes", "88 %", "all there"], ["change", "✗ no", "–", TAGS]]
    assert "80 %" in facts.inner_text()
    viewer.keyboard.press("ArrowRight")
    arrow = stage.locator("line.mark")
    assert [arrow.get_attribute(name) for name in ("x1", "y1", "x2", "y2")] == ["50.05%", "80.05%", "50.05%", "20.05%"]
    assert "a" * 16 + " unchanged" in facts.inner_text()
    viewer.keyboard.press("ArrowRight")
    assert "a" * 16 + " → " + "b" * 16 in facts.inner_text()


def test_a_keypoint_leads_to_the_picture_that_shows_it(viewer: Page) -> None:
    viewer.locator(".card").first.locator(".frame").first.click()
    points = viewer.locator("dialog .keypoints li")
    assert [text.split("\n")[0] for text in points.all_inner_texts()] == [
        "✓ met Alarm on", "✗ missing Saved", "✗ contradicted At 7:00",
    ]  # fmt: skip
    assert [points.nth(number).locator("button").count() for number in range(3)] == [1, 0, 1]
    points.nth(2).locator("button").click()
    assert viewer.locator("dialog .facts h2").first.inner_text() == "The end"
    assert viewer.locator("dialog .frame[aria-current=true]").get_attribute("aria-label") == "The screen at the end"
    points.nth(0).locator("button").click()
    assert viewer.locator("dialog .facts h2").first.inner_text() == "Step 2 of 3"
    assert str(viewer.locator("dialog .stage img").get_attribute("src")).endswith("number=0&at=1")


def test_episodes_are_filtered_and_searched(viewer: Page) -> None:
    assert viewer.locator("#count").inner_text() == f"4 episodes, {LONG + 6} steps; 1 step of no episode"
    viewer.get_by_label("Search").fill("SEVEN alarm")  # a word of a thought, one of the instruction
    wait_for_count(viewer, "1 of 4 episodes, 3 steps; 1 step of no episode")
    assert instructions(viewer) == ["Set the alarm"]
    viewer.get_by_label("Search").fill("闹钟")
    wait_for_count(viewer, "1 of 4 episodes, 2 steps; 1 step of no episode")
    viewer.get_by_label("Search").fill("")
    viewer.get_by_label("policy").select_option("random")
    wait_for_count(viewer, "2 of 4 episodes, 3 steps; 1 step of no episode")
    viewer.get_by_label("platform").select_option("web")
    wait_for_count(viewer, "1 of 4 episodes, 1 step; 1 step of no episode")
    viewer.reload()
    wait_for_count(viewer, "1 of 4 episodes, 1 step; 1 step of no episode")
    viewer.get_by_label("review").select_option("to review")
    wait_for_count(viewer, "0 of 4 episodes, 0 steps; 1 step of no episode")
    assert "No episode fits" in viewer.locator("main").inner_text()
    names = viewer.locator("select").evaluate_all("all => all.map((one) => one.name)")
    assert names == ["platform", "app", "policy", "verdict", "review", "outcome"], "those with a choice"


def test_the_keyboard_goes_everywhere(viewer: Page) -> None:
    def selected() -> str:
        return viewer.locator(".card.selected b").inner_text()

    viewer.keyboard.press("j")
    viewer.keyboard.press("ArrowDown")
    assert selected() == "闹钟"
    viewer.keyboard.press("k")
    viewer.keyboard.press("ArrowUp")
    viewer.keyboard.press("ArrowUp")
    assert selected() == "Set the alarm"
    viewer.keyboard.press("ArrowRight")
    viewer.keyboard.press("l")
    viewer.keyboard.press("Enter")
    title = viewer.locator("dialog .facts h2").first
    title.wait_for()
    assert title.inner_text() == "Step 2 of 3"
    viewer.keyboard.press("h")
    assert title.inner_text() == "Step 1 of 3"
    viewer.keyboard.press("j")
    expect(title).to_have_text("Step 1 of 1")
    viewer.keyboard.press("Escape")
    assert viewer.locator("dialog").is_hidden()
    viewer.keyboard.press("/")
    viewer.keyboard.type("j")
    assert viewer.get_by_label("Search").input_value() == "j"


def test_texts_of_the_data_are_never_html(viewer: Page) -> None:
    card = viewer.locator(".card").nth(1)
    assert card.locator("b").inner_text() == TAGS
    card.locator(".frame").first.click()
    viewer.get_by_text("Raw response").click()
    assert viewer.locator("dialog pre").inner_text() == TAGS
    assert viewer.locator("dialog .thought").inner_text() == TAGS
    assert viewer.locator("img[src='x']").count() == 0
    assert viewer.title() == "judged · Hesper"
    # Were a text taken for HTML one day, its script would still not run.
    viewer.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = "document.title = 'owned'";
          document.body.append(script);
          const image = document.createElement('div');
          image.innerHTML = '<img src="data:," onerror="document.title=`owned`">';
          document.body.append(image);
          return new Promise((done) => setTimeout(done, 200));
        }"""
    )
    assert viewer.title() == "judged · Hesper"


def test_what_is_missing_is_said(viewer: Page, address: str) -> None:
    card = viewer.locator(".card").nth(2)
    card.locator(".frame").first.click()
    assert "The response was not understood." in viewer.locator("dialog .facts").inner_text()
    viewer.locator("dialog .stage .none").wait_for()
    viewer.keyboard.press("ArrowRight")
    assert "not on this screen" in viewer.locator("dialog .facts").inner_text()
    viewer.keyboard.press("ArrowRight")  # it has no final screen
    assert viewer.locator("dialog .facts h2").first.inner_text() == "Step 2 of 2"
    answers = {}
    for query in (
        "number=2&at=0",
        "number=2&at=1",
        "number=0&at=4",
        "number=9&at=0",
        "number=-1&at=x",
        "",
        "number=0&at=0",
    ):
        try:
            with urllib.request.urlopen(f"{address}picture?{query}") as answer:
                answers[query] = answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            answers[query] = error.code
    assert list(answers.values()) == [404] * 6 + ["image/png"], "an SVG is no picture: it could hold a script"


def test_a_long_episode_has_only_the_frames_in_sight(viewer: Page) -> None:
    strip = viewer.locator(".card").nth(3).locator(".strip")
    strip.evaluate("strip => { strip.scrollLeft = strip.scrollWidth }")
    strip.get_by_label("The screen at the end").wait_for()
    assert strip.locator(".frame").count() < 60
    viewer.locator(".card").nth(3).locator("b").click()
    for _ in range(3):
        viewer.keyboard.press("ArrowRight")
    assert strip.get_by_label("Step 3:").get_attribute("aria-current") == "true"
    assert strip.get_by_label("Step 3:").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_on_a_phone(viewer: Page, scheme: Any) -> None:
    viewer.set_viewport_size({"width": 390, "height": 800})
    viewer.emulate_media(color_scheme=scheme)
    viewer.reload()
    viewer.locator(".frame img").first.wait_for()
    assert viewer.evaluate("document.documentElement.scrollWidth") == 390
    viewer.locator(".frame").first.click()
    viewer.locator("dialog .stage img").wait_for()
    assert viewer.evaluate("document.querySelector('dialog').scrollWidth") == 390


# --- a table of 10,000 steps

EPISODES, STEPS, PADDING = 1000, 10, 16_000


@pytest.fixture(scope="module")
def large_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(0)
    folder = tmp_path_factory.mktemp("large") / "large"

    def steps() -> Iterator[dict[str, Any]]:
        for number in range(EPISODES):
            name = f"episode-{number:04d}"
            for index in range(STEPS):
                picture = padded(screen(number % 12), chance, PADDING)
                yield step(name, index, CLICK, think=f"Thought {number} of {index}: " + "word " * 20, picture=picture)

    episodes = (episode(f"episode-{number:04d}", STEPS, app=f"app-{number % 20}") for number in range(EPISODES))
    return write_table(folder, episodes, steps(), [report(f"episode-{number:04d}") for number in range(EPISODES)])


def test_ten_thousand_steps_open_fast_and_are_never_all_in_memory(browser: Browser, large_table: Path) -> None:
    size = (large_table / "steps.parquet").stat().st_size
    assert size > EPISODES * STEPS * PADDING
    with served("view", str(large_table)) as (process, address):
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        begun = time.monotonic()
        page.goto(address)
        loaded = "[...document.querySelectorAll('.frame img')].some((img) => img.complete && img.naturalWidth)"
        wait_until(page, loaded)
        seconds = time.monotonic() - begun
        assert page.locator("#count").inner_text() == "1,000 episodes, 10,000 steps"
        assert page.locator(".card").count() < 10
        before = psutil.Process(process.pid).memory_info().rss

        page.get_by_label("Search").fill("thought 777 of 9")
        wait_for_count(page, "1 of 1,000 episodes, 10 steps")
        page.get_by_label("Search").fill("")
        wait_for_count(page, "1,000 episodes, 10,000 steps")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.get_by_label("Open episode-0999").locator("img").first.wait_for()
        assert page.locator(".card").count() < 10
        page.close()

        def fetch(number: int) -> int:
            with urllib.request.urlopen(f"{address}picture?number={number}&at={number % STEPS}") as answer:
                return len(answer.read())

        with ThreadPoolExecutor(6) as pool:  # one of each few steps, so every byte of the table is read
            assert all(length > PADDING for length in pool.map(fetch, range(0, EPISODES, 4)))
        grown = psutil.Process(process.pid).memory_info().rss - before
    print(
        f"first filmstrip after {seconds:.2f} s; the server is at {(before + grown) >> 20} MiB, {grown >> 20} MiB more"
    )
    assert seconds < 20
    # 64 MiB are kept of 160; the rest of the bar is what Arrow and the threads hold.
    assert grown < 130 << 20
    assert grown < size


# --- one file, the command, and what is wrong with a table


def test_a_file_holds_all_of_a_few_episodes(browser: Browser, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "few.html"
    done = said("view", str(table), "--policy", "oracle", "--verdict", "partial", "--output", str(output))
    assert done.stdout.strip() == output.as_uri()
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(output.as_uri())
    wait_until(page, "[...document.querySelectorAll('.frame img')].filter((img) => img.naturalWidth).length === 4")
    assert instructions(page) == ["Set the alarm"]
    page.get_by_label("Search").fill("nowhere")
    page.get_by_text("No episode fits").wait_for()
    page.get_by_label("Search").fill("SEVEN")
    page.locator(".frame").nth(2).click()
    assert "Seven" in page.locator("dialog .facts").inner_text()
    assert [url for url in requests if not _own(url)] == []
    page.close()
    with pytest.raises(ParameterError, match=rf"{LONG} steps are chosen and a file holds 500"):
        write_trajectories(tmp_path, str(table), {"episode": "long"}, tmp_path / "long.html", 500)
    assert [path.name for path in tmp_path.iterdir()] == ["few.html"]


def test_a_table_of_only_what_was_collected_is_shown_too(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "played" / "notes-001"
    folder.mkdir(parents=True)
    rows = {"episodes": [episode("played", 1, outcome="infrastructure")], "steps": [step("played", 0, CLICK)]}
    for name, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
        mine = [{key: row[key] for key in schema.names} for row in rows[name]]
        write_parquet(folder / f"{name}.parquet", mine, schema)
    write_trajectories(tmp_path, str(folder), {}, tmp_path / "page.html", 10)
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.locator(".frame").first.click()
    titles = page.locator("dialog .facts h2").all_inner_texts()
    assert titles == ["Step 1 of 1", "State", "Keypoints of the task", "Episode"]
    page.close()


def test_tables_are_found_by_name_or_folder(tmp_path: Path, table: Path) -> None:
    with pytest.raises(InputError, match="no trajectories yet"):
        find_table(tmp_path, None)
    with pytest.raises(InputError, match="hesper run collected_trajectories"):
        find_table(tmp_path, "collected_trajectories")
    data = tmp_path / "data"
    made = {name: write_table(data / name, [], []) for name in reversed(STAGES)}
    assert find_table(tmp_path, None) == made["verified_trajectories"]
    assert find_table(tmp_path, "collected_trajectories") == made["collected_trajectories"]
    batch = write_table(data / "imported_batches" / "people", [], [])
    assert find_table(tmp_path, "people") == batch
    assert find_table(tmp_path, str(table)) == table.resolve()
    with pytest.raises(ParameterError, match="no table 'peple'; did you mean people"):
        find_table(tmp_path, "peple")
    with pytest.raises(ParameterError, match=r"no episodes\.parquet and no steps\.parquet"):
        find_table(tmp_path, str(data))


def test_an_episode_that_is_not_there_is_named(table: Path) -> None:
    rows = TrajectoryTable(table)
    assert [row["id"] for row in choose(rows, {"policy": "random", "episode": None})] == ["evil", "lacking"]
    with pytest.raises(ParameterError, match="no episode of those chosen has the policy 'orcle'; did you mean oracle"):
        choose(rows, {"policy": "orcle"})
    with pytest.raises(ParameterError, match="has the app 'x'; there are: notes"):
        choose(rows, {"policy": "oracle", "app": "x"})


def test_a_broken_table_is_one_message(table: Path, tmp_path: Path) -> None:
    def broken(name: str, contents: bytes | pa.Table) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file in ("episodes", "steps"):
            (folder / f"{file}.parquet").write_bytes((table / f"{file}.parquet").read_bytes())
        if isinstance(contents, bytes):
            (folder / "steps.parquet").write_bytes(contents)
        else:
            pq.write_table(contents, folder / "steps.parquet")
        return folder

    with pytest.raises(InputError, match=r"steps\.parquet can't be read as Parquet"):
        TrajectoryTable(broken("torn", (table / "steps.parquet").read_bytes()[:5000]))
    fewer = pq.read_table(table / "steps.parquet").drop_columns(["think", "boxes"])
    with pytest.raises(InputError, match=r"steps\.parquet lacks the columns boxes, think"):
        TrajectoryTable(broken("fewer", fewer))
    done = said("view", str(tmp_path / "fewer"))
    assert (done.returncode, done.stdout) == (InputError.exit_code, "")
    assert done.stderr.startswith("error: ")


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), row_group=st.integers(1, 7), seed=st.integers(0, 99)
)
def test_an_episode_is_what_the_files_hold(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], row_group: int, seed: int
) -> None:
    rows = [
        step(f"e{e}", index, CLICK, picture=b"%d/%d" % (e, index)) for e, n in enumerate(lengths) for index in range(n)
    ]
    random.Random(seed).shuffle(rows)
    episodes = [episode(f"e{e}", n, final=b"%d/end" % e) for e, n in enumerate(lengths)]
    table = TrajectoryTable(write_table(tmp_path_factory.mktemp("any"), episodes, rows, row_group=row_group))
    asked = [(e, at) for e, n in enumerate(lengths) for at in range(n + 1)]
    random.Random(seed).shuffle(asked)
    for number, at in asked:
        expected = b"%d/%d" % (number, at) if at < lengths[number] else b"%d/end" % number
        assert table.picture(number, at) == expected
        shown = table.episode(number)
        assert shown is not None
        assert [one["index"] for one in shown["steps"]] == list(range(lengths[number]))
    assert [row["steps"] for row in table.index()] == lengths
    assert table.picture(0, lengths[0] + 1) is table.picture(len(lengths), 0) is table.episode(len(lengths)) is None


def test_many_may_ask_at_once_while_the_folder_is_replaced(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for path in table.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    shown = TrajectoryTable(folder)
    folder.rename(tmp_path / "old")
    write_table(folder, [], [])
    problems: list[BaseException] = []

    def look(start: int) -> None:
        try:
            for at in range(start, 80, 4):
                assert shown.picture(3, at) == screen(at % 7)
                if at % 5 == 0:
                    assert shown.find("seven") == [0]
                    assert json.dumps(shown.episode(at % 4), allow_nan=False)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=look, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
