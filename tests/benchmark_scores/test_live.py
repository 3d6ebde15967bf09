"""Live suites in real sessions: success and failure come from the state and from the page's own reward."""

from assets.agent.observation import RandomPolicy
from assets.benchmark_scores.cases import episode_cases
from assets.benchmark_scores.live import Venue, open_venues
from assets.environments.miniwob import MiniwobSession
from assets.environments.task import TaskContract
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


def correct(venue: Venue, labels: list[str]) -> list[bool | None]:
    played = venue.play(Clicker(venue.sessions[0], labels), max_steps=3)
    return [case.correct for case in episode_cases(played, venue.domain)]


def test_sites_and_pages_are_scored_by_state_and_reward() -> None:
    with MiniwobSession((SIDE, SIDE)) as session:
        pages = [session.task("click-test-2", seed) for seed in (0, 1)]  # seeds at which no button hides the other
    with open_venues([[SITE], [], pages], (SIDE, SIDE), sessions=1) as venues:
        site, miniwob = venues
        assert isinstance(miniwob.sessions[0], MiniwobSession)
        assert correct(site, ["Sync"]) == [True]
        assert correct(site, ["Task"]) == [False]
        assert correct(miniwob, ["ONE"]) == [True] * len(pages)
        assert correct(miniwob, ["TWO"]) == [False] * len(pages)  # a reward of -1
        first = [episode.outcome for episode in miniwob.play(RandomPolicy(4), max_steps=2)]
        assert [episode.outcome for episode in miniwob.play(RandomPolicy(4), max_steps=2)] == first
        cases = episode_cases(miniwob.play(RandomPolicy(4), max_steps=2), miniwob.domain)
        assert {(case.suite, case.domain, case.metric, case.group) for case in cases} == {
            ("miniwob", "web", "miniwob_success", "miniwob/click-test-2")
        }
