"""Live suites in real sessions: success and failure come from the state and from the page's own reward."""

from assets.agent.observation import RandomPolicy
from assets.benchmark_scores.cases import episode_cases
from assets.benchmark_scores.live import play
from assets.environments.miniwob import MiniwobSession
from assets.environments.task import TaskContract
from assets.environments.workers import Sessions
from tests.benchmark_scores.clicker import Clicker

SIDE = 192
SITE = TaskContract(
    id="site",
    platform="web",
    app="tasks-en",
    locale="en",
    instruction="Press Sync",
    expected_state={"apps.tasks-en.lists.done": ["Sync"]},
    allowed_side_effects=("view",),
    step_budget=3,
    split="heldout",
)


def correct(sessions: Sessions, tasks: list[TaskContract], labels: list[str]) -> list[bool | None]:
    clicker = Clicker(sessions.get(tasks[0].platform, tasks[0].app), labels)
    return [case.correct for case in episode_cases(play(sessions, tasks, clicker, 1, max_steps=3))]


def test_sites_and_pages_are_scored_by_state_and_reward() -> None:
    with Sessions((SIDE, SIDE)) as sessions:
        page = sessions.get("web", "miniwob/click-test-2")
        assert isinstance(page, MiniwobSession)
        pages = [page.task("click-test-2", seed) for seed in (0, 1)]  # seeds at which no button hides the other
        assert correct(sessions, [SITE], ["Sync"]) == [True]
        assert correct(sessions, [SITE], ["Task"]) == [False]
        assert correct(sessions, pages, ["ONE"]) == [True, True]
        assert correct(sessions, pages, ["TWO"]) == [False, False]  # a reward of -1

        alone = play(sessions, [*pages, SITE], RandomPolicy(4), 1, max_steps=2)
        together = play(sessions, [*pages, SITE], RandomPolicy(4), 2, max_steps=2)
        assert [len(episode.steps) for episode in together] == [2, 2, 2] == [len(episode.steps) for episode in alone]
        assert {(case.suite, case.domain, case.metric, case.group) for case in episode_cases(together)} == {
            ("miniwob", "web", "miniwob_success", "miniwob/click-test-2"),
            ("live_apps", "web", "live_success", "site"),
        }
