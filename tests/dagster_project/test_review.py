"""`hesper review`: a person at the page, and the decisions that are kept of it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from assets.environments.chromium import find_chromium
from assets.errors import InputError, ParameterError
from assets.verified_trajectories.reviews import Review, read_reviews, write_review
from dagster_project.view.review import Refused, ReviewQueue, default_reviewer, review
from tests.dagster_project.tables import CLICK, episode, report, said, served, step, wait_until, write_table

TAGS = "</script><img src=x onerror=\"document.title='owned'\">"
POINT = {"keypoint": "Open", "status": "unclear", "step": 0, "judge": "ocr", "evidence": "reads “Opn”"}
REPORTS = [
    report("calm"),
    report("mild", for_review=True, disagreement=0.5),
    report("worst", for_review=True, disagreement=0.9, verdict="partial", keypoints=[POINT]),
    report("even", for_review=True, disagreement=0.5),
    report("settled", decided_by="ada"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which five episodes are verified, three of them disputed."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    names = [one["episode_id"] for one in REPORTS]
    steps = [step(name, index, CLICK, think=TAGS, boxes=[[1.0, 2.0, 3.0, 4.0]]) for name in names for index in (0, 1)]
    episodes = [episode(name, 2, verdict="partial", instruction=f"{TAGS} {name}") for name in names]
    write_table(tmp_path / "data" / "verified_trajectories", episodes, steps, REPORTS)
    return tmp_path


def opened(browser: Browser, address: str, problems: list[str]) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(address) else None)
    page.goto(address)
    return page


def wait_for(page: Page, name: str, left: int, total: int = 3) -> None:
    """Until this episode is there to be decided."""
    wait_until(
        page,
        "([name, left]) => document.querySelector('main h1')?.textContent.endsWith(name)"
        " && document.getElementById('left').textContent === left && !document.querySelector('footer button').disabled",
        [f" {name}", f"{left} of {total} disputed episodes are open"],
    )


def served_nothing(address: str) -> None:
    raise AssertionError(f"there is nothing to decide, yet {address} asks")


def verdicts(project: Path) -> dict[str, tuple[str, str, str]]:
    found = read_reviews(project / "data" / "reviews").values()
    return {one.episode: (one.verdict, one.reviewer, one.note) for one in found}


def test_a_person_works_the_queue(browser: Browser, project: Path) -> None:
    problems: list[str] = []
    with served("review", "--reviewer", "ada", root=project) as (process, address):
        page = opened(browser, address, problems)
        wait_for(page, "worst", 3)  # the most disputed first
        assert "ocr: reads “Opn”" in page.locator(".keypoints").inner_text()
        assert "1 of 1 keypoints" in page.locator(".facts").inner_text()
        assert page.locator(".frame circle.mark").count() == 2
        page.get_by_role("button", name="Evidence: after step 1").click()
        assert page.locator(".facts h2").first.inner_text() == "Step 2 of 2"
        page.get_by_label("Note").fill("the wrong note: s is no key here")
        page.get_by_role("button", name="Failed").click()
        wait_for(page, "even", 2)
        assert page.get_by_label("Note").input_value() == ""
        page.keyboard.press("s")
        wait_for(page, "mild", 2)
        page.keyboard.press("n")
        page.keyboard.type("cpifsu")
        page.keyboard.press("Enter")
        page.keyboard.press("c")
        wait_for(page, "even", 1)
        assert verdicts(project) == {
            "worst": ("failed", "ada", "the wrong note: s is no key here"), "mild": ("completed", "ada", "cpifsu"),
        }  # fmt: skip
        page.keyboard.press("u")
        wait_for(page, "mild", 2)
        assert list(verdicts(project)) == ["worst"]
        assert page.get_by_label("Note").input_value() == "cpifsu"
        page.keyboard.press("p")
        wait_for(page, "even", 1)
        page.keyboard.press("i")
        page.get_by_text("Everything is decided.").wait_for()
        assert page.get_by_role("button", name="Completed").is_disabled()
        assert page.title() == "Review · Hesper"
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        summary = process.stdout.read().strip()
        assert process.wait(60) == 0
        page.close()
    assert problems == []
    assert verdicts(project) == {
        "worst": ("failed", "ada", "the wrong note: s is no key here"), "mild": ("partial", "ada", "cpifsu"),
        "even": ("infeasible", "ada", ""),
    }  # fmt: skip
    assert summary.startswith("3 of 3 disputed episodes are decided, 3 of them now; keep ")
    again = review(project, "ada", served_nothing)
    assert again.startswith("3 of 3 disputed episodes are decided, 0 of them now; keep ")


def test_a_reviewer_knows_what_the_judges_know(browser: Browser, project: Path) -> None:
    problems: list[str] = []
    with served("review", "--reviewer", "ada", root=project) as (_, address):
        with urllib.request.urlopen(f"{address}episode?number=2") as answer:
            sent = json.loads(answer.read())
        assert not {"outcome", "claimed"} & sent.keys()
        assert not {"boxes", "before", "after", "differences"} & sent["steps"][0].keys()
        for size in ((1280, 720), (390, 800)):
            page = opened(browser, address, problems)
            page.set_viewport_size({"width": size[0], "height": size[1]})
            wait_for(page, "worst", 3)
            text = page.locator("body").inner_text()
            assert "Votes" in text
            assert not any(word in text for word in ("outcome", "success", "has finished", "State"))
            assert page.evaluate("document.documentElement.scrollWidth") == size[0]
            assert page.get_by_role("button", name="Failed").evaluate(
                "button => button.getBoundingClientRect().bottom <= innerHeight"
            )
            page.close()
    assert problems == []


def test_two_reviewers_at_once_lose_nothing(browser: Browser, project: Path) -> None:
    problems: list[str] = []
    with (
        served("review", "--reviewer", "ada", root=project) as (_, first),
        served("review", "--reviewer", "bob", root=project) as (_, second),
    ):
        ada, bob = opened(browser, first, problems), opened(browser, second, problems)
        wait_for(ada, "worst", 3)
        wait_for(bob, "worst", 3)
        ada.keyboard.press("c")
        wait_for(ada, "even", 2)
        bob.get_by_label("Note").fill("I saw it fail")
        bob.get_by_role("button", name="Failed").click()
        wait_for(bob, "even", 2)
        told = "ada has decided this one: completed. Your note was: I saw it fail"
        assert bob.locator("#said").inner_text() == told
        assert bob.get_by_label("Note").input_value() == "", "it is not about the next one"
        bob.keyboard.press("p")
        wait_for(bob, "mild", 1)
        ada.keyboard.press("s")
        wait_for(ada, "mild", 1)
        ada.keyboard.press("u")
        wait_for(ada, "worst", 2)
        ada.close()
        bob.close()
    assert problems == []
    assert verdicts(project) == {"even": ("partial", "bob", "")}


def test_of_two_decisions_in_the_same_moment_one_is_kept_and_the_other_told(project: Path) -> None:
    queues = [ReviewQueue(project, name) for name in ("ada", "bob", "eve")]
    start = threading.Barrier(len(queues))
    told: list[str] = []

    def work(queue: ReviewQueue) -> None:
        items = queue.state()["open"]
        start.wait()
        for item in items:
            try:
                queue.decide({"number": item["number"], "verdict": "failed", "note": queue.reviewer})
            except Refused as error:
                told.append(str(error))

    threads = [threading.Thread(target=work, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = read_reviews(project / "data" / "reviews")
    assert len(kept) == 3
    assert len(told) == 6
    assert sum(queue.state()["mine"] for queue in queues) == 3
    assert all(one.note == one.reviewer for one in kept.values())
    assert all("has decided this one: failed" in message for message in told)


def test_only_what_was_seen_is_decided(project: Path) -> None:
    """A decision about an episode of the same name that went otherwise does not hold for this one."""
    folder = project / "data" / "reviews"
    write_review(folder, Review(episode="worst", seen="f" * 64, verdict="failed", reviewer="ada"))
    queue = ReviewQueue(project, "bob")
    assert [item["episode_id"] for item in queue.state()["open"]] == ["worst", "even", "mild"]
    write_review(folder, Review(episode="mild", seen=REPORTS[1]["seen"], verdict="failed", reviewer="ada"))
    assert [item["episode_id"] for item in queue.state()["open"]] == ["worst", "even"]


def test_what_somebody_else_changed_is_not_taken_back(project: Path) -> None:
    queue = ReviewQueue(project, "ada")
    with pytest.raises(Refused, match="nothing was decided"):
        queue.undo()
    queue.decide({"number": 2, "verdict": "failed", "note": ""})
    theirs = Review(episode="worst", seen=REPORTS[2]["seen"], verdict="completed", reviewer="bob")
    write_review(project / "data" / "reviews", theirs)
    with pytest.raises(Refused, match="no longer what was written here"):
        queue.undo()
    assert verdicts(project) == {"worst": ("completed", "bob", "")}


@pytest.mark.parametrize(
    "given",
    [
        {}, {"number": 0, "verdict": "failed"}, {"number": 99, "verdict": "failed"}, {"number": 2, "verdict": "maybe"},
        {"number": 2, "verdict": "failed", "note": 7}, {"number": 2, "verdict": "failed", "note": "x" * 10_001},
        {"number": [2], "verdict": "failed"},
    ],
)  # fmt: skip
def test_what_is_no_decision_is_refused(given: dict[str, Any], project: Path) -> None:
    queue = ReviewQueue(project, "ada")
    with pytest.raises(Refused):
        queue.decide(given)
    assert not (project / "data" / "reviews").exists()


def test_a_file_that_is_no_decision_stops_nobody_without_a_word(project: Path) -> None:
    (project / "data" / "reviews").mkdir()
    (project / "data" / "reviews" / "merge.json").write_text("<<<<<<< HEAD")
    with pytest.raises(InputError, match=r"merge\.json is no review"):
        review(project, "ada", served_nothing)


def test_with_nothing_to_review_it_says_so(project: Path) -> None:
    verified = project / "data" / "verified_trajectories"
    write_table(verified, [episode("calm", 1)], [step("calm", 0, CLICK)], [report("calm")])
    assert review(project, "ada", served_nothing) == "nothing to review: the judges are agreed about every episode"
    write_table(verified, [episode("calm", 1)], [step("calm", 0, CLICK)], [report("gone", for_review=True)])
    with pytest.raises(InputError, match="names 'gone', which is no episode of it"):
        ReviewQueue(project, "ada")
    (verified / "reports.parquet").unlink()
    with pytest.raises(InputError, match="has no reports: `hesper run verified_trajectories`"):
        ReviewQueue(project, "ada")
    (verified / "episodes.parquet").unlink()
    done = said("review", root=project)
    assert done.returncode == InputError.exit_code
    assert "there is no data/verified_trajectories yet" in done.stderr


def test_the_reviewer_is_who_git_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("LOGNAME", "account")
    assert default_reviewer(project) == "account"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "config", "user.name", "Ada Lovelace"], cwd=project, check=True)
    assert default_reviewer(project) == "Ada Lovelace"
    for name in (" ", "x" * 101):
        with pytest.raises(ParameterError, match="1 to 100"):
            ReviewQueue(project, name)
