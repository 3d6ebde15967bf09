"""The phone: simulated apps behind a launcher, with the system keys."""

from __future__ import annotations

from assets.agent.actions import Action
from assets.environments.simulated import SimulatedSession


class PhoneSession(SimulatedSession):
    """A phone whose apps share one launcher. It starts in the task's app.

    Back leads from a dialog to its screen, from a screen to the one before, from the first screen to the launcher.
    """

    platform = "mobile"
    touch = True

    def _perform(self, action: Action) -> None:
        match action.name:
            case "PressBack":
                self.page.evaluate("hesper.back()")
            case "PressHome":
                self.page.evaluate("hesper.launcher(false)")
            case "PressRecent":
                self.page.evaluate("hesper.launcher(true)")
            case "LaunchApp":
                app = self.find_app(action.content or "")
                if app is None:
                    self._note = f"no app '{action.content}'"
                else:
                    self.page.evaluate("app => hesper.launch(app)", app)
            case "GetScreenshot":
                self._agent["album"] += 1
            case _:
                super()._perform(action)
