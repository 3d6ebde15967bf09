"""Candidates for full desktop programs: real programs of Debian, driven by their keyboard shortcuts.

    In Mousepad, delete the line "Ticket" of shopping.txt and save the file.
    请在“Gnumeric”里把"酒店"的数量改成 412，并保存。

Nobody has written down where the controls of such a program are, so the oracle uses its keyboard. What a task is about
stands in files that are laid out for its family, with names and values drawn anew; whether it was done is read from
what the program leaves behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assets.agent.vocabulary import WORDS, Locale
from assets.environments.desktop import ProgramSpec
from assets.environments.desktop.outcomes import escaped, print_of
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import Candidate, PlannedStep


def program_candidates(spec: ProgramSpec, arrangement: int, rng: random.Random) -> list[Candidate]:
    """What can be asked of a program, shuffled; those of one arrangement are a family and find the same files.

    A program that speaks English is asked in English or in Chinese. Each candidate's `decoy` is what another one asks
    for. Empty for a program of which nothing is known to ask.
    """
    if spec.id not in _PROGRAMS:
        return []
    locale: Locale = "zh" if spec.locale == "zh" else rng.choice(("en", "zh"))
    family = _Family(spec, locale, rng)
    _PROGRAMS[spec.id](family)
    candidates = family.candidates(f"desktop/{spec.id}/{arrangement}")
    decoys = [*candidates[1:], *candidates[:1]]
    candidates = [replace(mine, decoy=other.plan) for mine, other in zip(candidates, decoys, strict=True)]
    rng.shuffle(candidates)
    return candidates


@dataclass(frozen=True)
class _Ask:
    """One thing to ask; see `_Family.ask`."""

    kind: str
    text: str
    names: tuple[str, ...]
    keypoints: tuple[str, ...]
    plan: tuple[PlannedStep, ...]
    expected: dict[str, Any]
    allowed: tuple[str, ...]
    uses: tuple[str, ...]


@dataclass
class _Family:
    """What a family finds, and what it is asked.

    Attributes:
        files, read, shown, arguments: of the `TaskSpec` that all of them start from.
    """

    spec: ProgramSpec
    locale: Locale
    rng: random.Random
    files: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    asks: list[_Ask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._words = iter(self.rng.sample(WORDS[self.locale], len(WORDS[self.locale])))

    def words(self, count: int) -> list[str]:
        """Words that this family has not used yet."""
        return [next(self._words) for _ in range(count)]

    def number(self) -> int:
        """A number of three digits: nobody guesses it, and it is searched for in instruction and fixtures."""
        return self.rng.randrange(101, 1000)

    def say(self, english: str, chinese: str) -> str:
        """The one that is in the family's language."""
        return english if self.locale == "en" else chinese

    def press(self, *keys: str, english: str, chinese: str) -> PlannedStep:
        """Keys pressed together, and the thought before."""
        return PlannedStep("Hotkey", keys=keys, thought=self.say(english, chinese))

    def type(self, content: str) -> PlannedStep:
        """Text that is typed."""
        return PlannedStep(
            "Type", content=content, thought=self.say(f"Type {content.strip()}", f"输入{content.strip()}")
        )

    def down(self, times: int) -> list[PlannedStep]:
        """The arrow down, that many times."""
        return [self.press("Down", english="Go down", chinese="向下")] * times

    def saved(self) -> PlannedStep:
        """The shortcut that saves."""
        return self.press("ctrl", "s", english="Save", chinese="保存")

    def ask(
        self,
        kind: str,
        english: str,
        chinese: str,
        plan: Sequence[PlannedStep],
        expected: dict[str, Any],
        *,
        names: Sequence[str] = (),
        keypoints: Sequence[str] = (),
        allowed: Sequence[str] = (),
        uses: Sequence[str],
    ) -> None:
        """One thing to ask.

        Args:
            english, chinese: what follows the program's name in the instruction, without the full stop.
            names: what the instruction calls the things that it is about; each is there once.
            keypoints: what must be seen beside them.
            allowed: what else of the state the program may change on the way.
            uses: readers of the program's spec whose outcome it is about: its capabilities.
        """
        title = self.spec.title
        text = self.say(f"In {title}, {english}.", f"请在“{title}”里{chinese}。")
        seen = (*names, *keypoints)
        self.asks.append(_Ask(kind, text, tuple(names), seen, tuple(plan), expected, tuple(allowed), tuple(uses)))

    def answered(self, english: str, chinese: str, plan: Sequence[PlannedStep], answer: str, **more: Any) -> None:
        """A query: something to find out and to say."""
        said = PlannedStep("Finished", content=answer, thought=answer)
        self.ask("query", english, chinese, [*plan, said], {"answer": answer}, **more)

    def candidates(self, family: str) -> list[Candidate]:
        """What is asked, as candidates."""
        spec, resources = self.spec, {"files": self.files, "read": self.read, "shown": self.shown}
        found = []
        for ask in self.asks:
            task = TaskContract(
                id="",
                platform="desktop",
                app=spec.id,
                locale=self.locale,
                instruction=ask.text,
                kind=ask.kind,
                capabilities=tuple(f"{spec.id}/read.{name}" for name in ask.uses),
                resources={key: value for key, value in resources.items() if value},
                expected_state=ask.expected,
                allowed_side_effects=ask.allowed,
                keypoints=ask.keypoints,
                step_budget=len(ask.plan) + 5,
                split=spec.split,
            )
            target = f"{ask.text} | {ask.expected['answer']}" if ask.kind == "query" else ask.text
            found.append(Candidate(task, ask.plan, family, target, names=ask.names))
        return found


# --- the programs -----------------------------------------------------------------------------------------------------


def _mousepad(family: _Family) -> None:
    """Lines of a note, and appointments in a file that is not open yet."""
    note, minutes = "Documents/shopping.txt", "Documents/minutes.txt"
    lines, new, days, rooms = family.words(5), family.words(3), family.words(3), family.words(3)
    family.files = {
        note: {"text": "".join(f"{line}\n" for line in lines)},
        minutes: {"text": "".join(f"{day}: {room}\n" for day, room in zip(days, rooms, strict=True))},
    }
    family.shown = [minutes]
    changes = {"allowed": (_place(note),), "uses": ("note",)}
    top = family.press("ctrl", "Home", english="Go to the first line", chinese="到第一行")
    end = family.press("ctrl", "End", english="Go to the end", chinese="到末尾")
    mark = family.press("shift", "Down", english="Mark the line", chinese="选中这一行")
    mark_text = family.press("shift", "End", english="Mark its text", chinese="选中文字")
    delete = family.press("delete", english="Delete it", chinese="删除")

    def note_of(kept: Sequence[str]) -> dict[str, Any]:
        return {"read.note": "".join(f"{line}\n" for line in kept)}

    family.ask(
        "composite",
        f'add the line "{new[0]}" at the end of shopping.txt and save the file',
        f'在 shopping.txt 末尾加上一行"{new[0]}"，并保存',
        [end, family.type(f"{new[0]}\n"), family.saved()],
        note_of([*lines, new[0]]),
        keypoints=(new[0],),
        **changes,
    )
    for at in family.rng.sample(range(1, 5), 2):
        family.ask(
            "composite",
            f'delete the line "{lines[at]}" of shopping.txt and save the file',
            f'删除 shopping.txt 里的"{lines[at]}"这一行，并保存',
            [top, *family.down(at), mark, delete, family.saved()],
            note_of([line for line in lines if line != lines[at]]),
            names=(lines[at],),
            **changes,
        )
    at = family.rng.randrange(1, 5)
    family.ask(
        "composite",
        f'replace the line "{lines[at]}" of shopping.txt by "{new[1]}" and save the file',
        f'把 shopping.txt 里的"{lines[at]}"这一行改成"{new[1]}"，并保存',
        [top, *family.down(at), mark_text, family.type(new[1]), family.saved()],
        note_of([new[1] if line == lines[at] else line for line in lines]),
        names=(lines[at],),
        **changes,
    )
    first, second = sorted(family.rng.sample(range(1, 5), 2))
    family.ask(
        "batch",
        f'delete the lines "{lines[first]}" and "{lines[second]}" of shopping.txt and save the file',
        f'删除 shopping.txt 里的"{lines[first]}"和"{lines[second]}"这两行，并保存',
        [top, *family.down(first), mark, delete, *family.down(second - first - 1), mark, delete, family.saved()],
        note_of([line for line in lines if line not in (lines[first], lines[second])]),
        names=(lines[first], lines[second]),
        **changes,
    )
    opened = [
        family.press("ctrl", "o", english="Open a file", chinese="打开文件"),
        family.type("/home/user/Documents/minutes.txt\n"),
    ]
    for day, room in family.rng.sample([*zip(days, rooms, strict=True)], 2):
        family.answered(
            f'open minutes.txt and tell me what stands beside "{day}"',
            f'打开 minutes.txt，然后告诉我"{day}"后面写的是什么',
            opened,
            room,
            names=(day,),
            allowed=("windows",),
            uses=("note",),
        )


def _galculator(family: _Family) -> None:
    """Sums, copied or said."""
    copy = family.press("ctrl", "c", english="Copy the result", chinese="复制结果")
    for _ in range(3):
        first, second = family.number(), family.rng.randrange(12, 99)
        product, total = first * second, first + second
        family.ask(
            "composite",
            f"work out {first} × {second} and copy the result",
            f"算出 {first} × {second}，并复制结果",
            [family.type(f"{first}*{second}\n"), copy],
            {"read.result": str(product)},
            keypoints=(str(product),),
            uses=("result",),
        )
        family.answered(
            f"work out {first} × {second} + {second} and tell me the result",
            f"算出 {first} × {second} + {second}，然后告诉我结果",
            [family.type(f"{first}*{second}+{second}\n")],
            str(product + second),
            keypoints=(str(first), str(second)),
            uses=("result",),
        )
        family.ask(
            "composite",
            f"work out {first} + {second} and copy the result",
            f"算出 {first} + {second}，并复制结果",
            [family.type(f"{first}+{second}\n"), copy],
            {"read.result": str(total)},
            keypoints=(str(total),),
            uses=("result",),
        )


def _gnumeric(family: _Family) -> None:
    """Amounts beside names, in a sheet that is longer than the screen."""
    path = "Documents/sales.gnumeric"
    name, amount, *names = family.words(46)
    amounts = family.rng.sample(range(101, 1000), len(names) + 4)
    amounts, new = amounts[4:], amounts[:4]
    rows: list[list[Any]] = [[name, amount], *([one, value] for one, value in zip(names, amounts, strict=True))]
    family.files = {path: {"sheet": rows}}
    family.read = {"sheet": {"kind": "sheet", "path": path}}
    family.shown = [path]
    changes = {"allowed": (_place(path), "read.b2", "read.b5", "read.a5"), "uses": ("b2", "b5")}
    right = family.press("Right", english="Go right", chinese="向右")

    def sheet_with(values: dict[int, int], more: Sequence[list[Any]] = ()) -> dict[str, Any]:
        return {"read.sheet": [*([row[0], values.get(at, row[1])] for at, row in enumerate(rows)), *more]}

    for at in family.rng.sample(range(1, 9), 3):
        family.ask(
            "composite",
            f'set the amount beside "{rows[at][0]}" to {new[0]} and save the file',
            f'把"{rows[at][0]}"旁边的数改成 {new[0]}，并保存',
            [*family.down(at), right, family.type(f"{new[0]}\n"), family.saved()],
            sheet_with({at: new[0]}),
            names=(rows[at][0],),
            **changes,
        )
    first, second = sorted(family.rng.sample(range(1, 9), 2))
    family.ask(
        "batch",
        f'set the amounts beside "{rows[first][0]}" and "{rows[second][0]}" to {new[1]} and save the file',
        f'把"{rows[first][0]}"和"{rows[second][0]}"旁边的数都改成 {new[1]}，并保存',
        [
            *[*family.down(first), right, family.type(f"{new[1]}\n")],
            *[*family.down(second - first - 1), family.type(f"{new[1]}\n"), family.saved()],
        ],
        sheet_with({first: new[1], second: new[1]}),
        names=(rows[first][0], rows[second][0]),
        **changes,
    )
    last = family.press("ctrl", "End", english="Go to the end", chinese="到末尾")
    for at in family.rng.sample(range(len(rows) - 5, len(rows)), 2):
        family.answered(
            f'tell me the amount beside "{rows[at][0]}"',
            f'告诉我"{rows[at][0]}"旁边的数',
            [last],
            str(rows[at][1]),
            names=(rows[at][0],),
            uses=("b5",),
        )


def _xterm(family: _Family) -> None:
    """Files of a folder, by commands."""
    names, new, folders = family.words(3), family.words(3), family.words(2)
    family.files = {
        "projects/readme.md": None,
        "projects/trees.csv": None,
        **{f"projects/{name}.txt": {"text": f"{family.number()}\n"} for name in names},
        **{f"projects/{folder}": {"folder": True} for folder in folders},
    }
    texts = {name: family.files[f"projects/{name}.txt"]["text"].strip() for name in names}
    listed = sorted([*(f"{name}.txt" for name in names), *folders])
    family.shown = [f"projects/{name}.txt" for name in names]
    uses = {"uses": ("projects",)}
    for name in names[:2]:
        family.answered(
            f'tell me what stands in "{name}.txt" of the folder projects',
            f'告诉我 projects 文件夹里的"{name}.txt"写的是什么',
            [family.type(f"cat projects/{name}.txt\n")],
            texts[name],
            names=(f"{name}.txt",),
            **uses,
        )
    for name, other in zip(names, new, strict=True):
        family.ask(
            "single",
            f'rename "{name}.txt" in the folder projects to "{other}.txt"',
            f'把 projects 文件夹里的"{name}.txt"改名为"{other}.txt"',
            [family.type(f"mv projects/{name}.txt projects/{other}.txt\n")],
            {
                "read.projects": sorted([*(one for one in listed if one != f"{name}.txt"), f"{other}.txt"]),
                _place(f"projects/{other}.txt"): print_of(f"{texts[name]}\n".encode()),
            },
            names=(f"{name}.txt",),
            allowed=(_place(f"projects/{name}.txt"),),
            **uses,
        )
    for folder in folders:
        moved = names[:2]
        family.ask(
            "batch",
            f'move "{moved[0]}.txt" and "{moved[1]}.txt" of the folder projects into its folder "{folder}"',
            f'把 projects 文件夹里的"{moved[0]}.txt"和"{moved[1]}.txt"移到其中的"{folder}"文件夹',
            [family.type(f"cd projects\nmv {moved[0]}.txt {moved[1]}.txt {folder}\n")],
            {
                "read.projects": sorted({*listed} - {f"{name}.txt" for name in moved}),
                **{_place(f"projects/{folder}/{name}.txt"): print_of(f"{texts[name]}\n".encode()) for name in moved},
            },
            names=(f"{moved[0]}.txt", f"{moved[1]}.txt", folder),
            allowed=(_place(f"projects/{folder}"), *(_place(f"projects/{name}.txt") for name in moved)),
            **uses,
        )


def _place(path: str) -> str:
    """Where the state tells of a file."""
    return f"files.{escaped(path)}"


_PROGRAMS: dict[str, Callable[[_Family], None]] = {
    "galculator": _galculator,
    "gnumeric": _gnumeric,
    "mousepad-full": _mousepad,
    "xterm": _xterm,
}
"""Program -> what puts its family together."""
