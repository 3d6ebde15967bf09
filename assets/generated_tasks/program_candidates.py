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
        files, read, shown, arguments, window: of the `TaskSpec` that all of them start from; what is empty is the
            program's own.
    """

    spec: ProgramSpec
    locale: Locale
    rng: random.Random
    files: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    window: str = ""
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
        spec, given = self.spec, ("files", "read", "shown", "arguments", "window")
        resources = {name: getattr(self, name) for name in given if getattr(self, name)}
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
                resources=resources,
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

    day, room = family.rng.choice([*zip(days, rooms, strict=True)])
    family.ask(
        "scenario",
        f'open minutes.txt, read what stands beside "{day}", add that as a line at the end of shopping.txt and save it',
        f'打开 minutes.txt，看"{day}"后面写的是什么，把它作为一行加到 shopping.txt 末尾，并保存',
        [
            *[*opened, family.press("ctrl", "o", english="Open a file", chinese="打开文件")],
            *[family.type("/home/user/Documents/shopping.txt\n"), end, family.type(f"{room}\n"), family.saved()],
        ],
        note_of([*lines, room]),
        names=(day,),
        allowed=(_place(note), "windows"),
        uses=("note",),
    )


def _galculator(family: _Family) -> None:
    """Sums, copied or said."""
    copy = family.press("ctrl", "c", english="Copy the result", chinese="复制结果")
    for _ in range(2):
        # No digit twice: GTK's buttons take no second press within a quarter of a second, and keys press buttons there.
        digits = "".join(family.rng.sample("123456789", 5))
        first, second = int(digits[:3]), int(digits[3:])
        for sign, key, result in (("×", "*", first * second), ("+", "+", first + second), ("-", "-", first - second)):
            typed = family.type(f"{first}{key}{second}\n")
            family.ask(
                "composite",
                f"work out {first} {sign} {second} and copy the result",
                f"算出 {first} {sign} {second}，并复制结果",
                [typed, copy],
                {"read.result": str(result)},
                keypoints=(str(result),),
                uses=("result",),
            )
            family.answered(
                f"work out {first} {sign} {second} and tell me the result",
                f"算出 {first} {sign} {second}，然后告诉我结果",
                [typed],
                str(result),
                keypoints=(str(first), str(second)),
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


def _pcmanfm(family: _Family) -> None:
    """Files and folders; the first item has the focus after Home, folders stand before files."""
    base = next(path for path in family.spec.files if "/" in path).partition("/")[0]
    folders, files = sorted(family.words(2)), sorted(f"{word}.txt" for word in family.words(3))
    inside, new = family.words(2), family.words(2)
    texts = {name: f"{family.number()}\n" for name in files}
    family.files = {
        **dict.fromkeys(path for path in family.spec.files if path.startswith(f"{base}/")),
        **{f"{base}/{folder}/{name}.txt": {"text": "-\n"} for folder, name in zip(folders, inside, strict=True)},
        **{f"{base}/{name}": {"text": text} for name, text in texts.items()},
    }
    family.shown = [f"{base}/{folder}/{name}.txt" for folder, name in zip(folders, inside, strict=True)]
    items, uses = [*folders, *files], {"uses": ("documents",)}

    def chosen(name: str) -> list[PlannedStep]:
        home = family.press("Home", english="Go to the first item", chinese="到第一项")
        return [home] + [family.press("Right", english="Go right", chinese="向右")] * items.index(name)

    enter = family.press("Return", english="Open it", chinese="打开")
    for name in family.rng.sample(files, 2):
        family.ask(
            "single",
            f'rename the file "{name}" to "{new[0]}.txt"',
            f'把文件"{name}"改名为"{new[0]}.txt"',
            [*chosen(name), family.press("F2", english="Rename it", chinese="改名"), family.type(f"{new[0]}\n")],
            {
                "read.documents": sorted({*items, f"{new[0]}.txt"} - {name}),
                _place(f"{base}/{new[0]}.txt"): print_of(texts[name].encode()),
            },
            names=(name,),
            keypoints=(new[0],),
            allowed=(_place(f"{base}/{name}"),),
            **uses,
        )
    family.ask(
        "single",
        f'make a new folder called "{new[1]}"',
        f'新建一个叫"{new[1]}"的文件夹',
        [family.press("ctrl", "shift", "n", english="New folder", chinese="新建文件夹"), family.type(f"{new[1]}\n")],
        {"read.documents": sorted([*items, new[1]]), _place(f"{base}/{new[1]}"): "folder"},
        keypoints=(new[1],),
        **uses,
    )
    for name, folder in zip(family.rng.sample(files, 2), folders, strict=True):
        family.ask(
            "composite",
            f'move the file "{name}" into the folder "{folder}"',
            f'把文件"{name}"移到"{folder}"文件夹里',
            [
                *[*chosen(name), family.press("ctrl", "x", english="Cut it", chinese="剪切")],
                *[*chosen(folder), enter, family.press("ctrl", "v", english="Put it here", chinese="粘贴")],
                PlannedStep("Wait", thought=family.say("Wait until it is there", "等它移好")),
            ],
            {
                "read.documents": sorted({*items} - {name}),
                _place(f"{base}/{folder}/{name}"): print_of(texts[name].encode()),
            },
            names=(name, folder),
            allowed=(_place(f"{base}/{name}"), "windows"),
            **uses,
        )
    for folder, name in zip(folders, inside, strict=True):
        family.answered(
            f'open the folder "{folder}" and tell me which file lies in it',
            f'打开"{folder}"文件夹，然后告诉我里面是什么文件',
            [*chosen(folder), enter],
            f"{name}.txt",
            names=(folder,),
            allowed=("windows",),
            **uses,
        )


def _engrampa(family: _Family) -> None:
    """What lies in an archive, and taking it out; the first arrow goes to the first row, folders stand before files."""
    path = "Downloads/photos.tar.gz"
    folders, files = sorted(family.words(2)), sorted(f"{word}.txt" for word in family.words(3))
    inside = [f"{word}.txt" for word in family.words(2)]
    members = {name: f"{family.number()}\n" for name in files}
    members |= {f"{folder}/{name}": f"{family.number()}\n" for folder, name in zip(folders, inside, strict=True)}
    family.files = {path: {"archive": members}}
    family.shown = [path]
    rows, uses = [*folders, *files], {"uses": ("downloads",)}
    extract = [
        family.press("ctrl", "e", english="Extract", chinese="解压"),
        family.press("Return", english="Yes, here", chinese="就在这里"),
        PlannedStep("Wait", thought=family.say("Wait until it is done", "等它完成")),
    ]
    for name in family.rng.sample(files, 2):
        family.ask(
            "composite",
            f'extract the file "{name}" alone into the folder Downloads',
            f'只把文件"{name}"解压到 Downloads 文件夹',
            [*family.down(rows.index(name) + 1), *extract],
            {
                "read.downloads": sorted(["photos.tar.gz", name]),
                _place(f"Downloads/{name}"): print_of(members[name].encode()),
            },
            names=(name,),
            allowed=("windows",),
            **uses,
        )
    family.ask(
        "batch",
        "extract everything in the archive into the folder Downloads",
        "把压缩包里的所有文件解压到 Downloads 文件夹",
        extract,
        {
            "read.downloads": sorted(["photos.tar.gz", *rows]),
            **{_place(f"Downloads/{name}"): print_of(text.encode()) for name, text in members.items()},
        },
        keypoints=("photos.tar.gz",),
        allowed=("windows",),
        **uses,
    )
    for folder, name in zip(folders, inside, strict=True):
        family.answered(
            f'open the folder "{folder}" of the archive and tell me which file lies in it',
            f'打开压缩包里的"{folder}"文件夹，然后告诉我里面是什么文件',
            [*family.down(rows.index(folder) + 1), family.press("Return", english="Open it", chinese="打开")],
            name,
            names=(folder,),
            **uses,
        )


def _sylpheed(family: _Family) -> None:
    """Messages that are written and kept as drafts."""
    subjects, bodies = family.words(3), family.words(3)
    keep = family.press("ctrl", "shift", "d", english="Keep it as a draft", chinese="存为草稿")
    for subject, body in zip(subjects, bodies, strict=True):
        address = f"box{family.number()}@example.org"
        family.ask(
            "composite",
            f'write a message to {address} with the subject "{subject}" and the text "{body}" and keep it as a draft',
            f'给 {address} 写一封主题为"{subject}"、内容为"{body}"的邮件，并存为草稿',
            [
                family.press("ctrl", "m", english="Write a message", chinese="写邮件"),
                *[family.type(f"{address}\t\t{subject}\t"), family.type(body), keep],
            ],
            {"read.drafts": [{"to": address, "subject": subject, "body": body}]},
            keypoints=(address, subject, body),
            allowed=(_place("Mail/draft"), _place("Mail/draft/1")),
            uses=("drafts",),
        )


def _viewnior(family: _Family) -> None:
    """Pictures that are turned and kept; the arrow leads to the next by name. A yellow spot tells which way."""
    names, sizes, yellow = sorted(family.words(3)), [(480, 320), (300, 200), (400, 260)], "#f1c40f"
    pictures = {
        name: {"size": list(size), "boxes": [[20, 20, 80, 60, yellow]]} for name, size in zip(names, sizes, strict=True)
    }
    family.files = {
        **dict.fromkeys(family.spec.files),
        **{f"Pictures/{name}.png": {"picture": {**picture, "colour": "#7fb2e5"}} for name, picture in pictures.items()},
    }
    family.arguments, family.window = [f"Pictures/{names[0]}.png"], rf"{names[0]}\.png"
    for at, (name, (width, height)) in enumerate(zip(names, sizes, strict=True)):
        image = {"kind": "image", "path": f"Pictures/{name}.png"}
        spots = {"right": [height - 30, 30], "left": [30, width - 30]}
        family.read |= {f"size_{at}": image, **{f"{way}_{at}": {**image, "at": spot} for way, spot in spots.items()}}
        for way, chinese, keys in (("right", "向右", ("ctrl", "r")), ("left", "向左", ("ctrl", "shift", "r"))):
            family.ask(
                "composite",
                f'turn the picture "{name}.png" to the {way} and save it',
                f'把图片"{name}.png"{chinese}旋转，并保存',
                [
                    *[family.press("Right", english="The next picture", chinese="下一张")] * at,
                    family.press(*keys, english="Turn it", chinese="旋转"),
                    family.saved(),
                ],
                {f"read.size_{at}": [height, width], f"read.{way}_{at}": yellow},
                names=(f"{name}.png",),
                allowed=("windows", _place(f"Pictures/{name}.png"), f"read.right_{at}", f"read.left_{at}"),
                uses=("size",),
            )


def _zim(family: _Family) -> None:
    """Pages of a notebook."""
    pages, notes, new = family.words(3), family.words(3), family.words(3)
    head = "Content-Type: text/x-zim-wiki\nWiki-Format: zim 0.6\nCreation-Date: 2026-01-05T09:00:00+00:00\n\n"
    texts = {page: f"{head}====== {page} ======\n{note}\n" for page, note in zip(pages, notes, strict=True)}
    family.files = {f"Notebook/{page}.txt": {"text": text} for page, text in texts.items()}
    family.read = {f"page_{at}": {"kind": "text", "path": f"Notebook/{page}.txt"} for at, page in enumerate(pages)}
    family.shown = [f"Notebook/{page}.txt" for page in pages]
    end = family.press("ctrl", "End", english="Go to the end", chinese="到末尾")

    def opened(page: str) -> list[PlannedStep]:
        return [family.press("ctrl", "j", english="Jump to a page", chinese="跳到页面"), family.type(f"{page}\n")]

    for at, (page, note) in enumerate(zip(pages, notes, strict=True)):
        family.ask(
            "composite",
            f'open the page "{page}", add the line "{new[0]}" at its end and save it',
            f'打开"{page}"页面，在末尾加上一行"{new[0]}"，并保存',
            [*opened(page), end, family.type(f"\n{new[0]}"), family.saved()],
            {f"read.page_{at}": f"{texts[page]}\n{new[0]}\n"},
            keypoints=(page, new[0]),
            allowed=("windows", _place(f"Notebook/{page}.txt")),
            uses=("pages",),
        )
        family.answered(
            f'open the page "{page}" and tell me what stands below its title',
            f'打开"{page}"页面，然后告诉我标题下面写的是什么',
            opened(page),
            note,
            keypoints=(page,),
            allowed=("windows",),
            uses=("pages",),
        )
    source, target, note = 0, 1, notes[0]
    family.ask(
        "scenario",
        f'add what stands below the title of the page "{pages[source]}" as a line at the end of the page '
        f'"{pages[target]}" and save it',
        f'把"{pages[source]}"页面标题下面的内容作为一行加到"{pages[target]}"页面末尾，并保存',
        [*opened(pages[source]), *opened(pages[target]), end, family.type(f"\n{note}"), family.saved()],
        {f"read.page_{target}": f"{texts[pages[target]]}\n{note}\n"},
        keypoints=(pages[source], pages[target]),
        allowed=("windows", _place(f"Notebook/{pages[target]}.txt")),
        uses=("pages",),
    )


def _place(path: str) -> str:
    """Where the state tells of a file."""
    return f"files.{escaped(path)}"


_PROGRAMS: dict[str, Callable[[_Family], None]] = {
    "engrampa": _engrampa,
    "galculator": _galculator,
    "gnumeric": _gnumeric,
    "mousepad-full": _mousepad,
    "pcmanfm": _pcmanfm,
    "pcmanfm-zh": _pcmanfm,
    "sylpheed": _sylpheed,
    "viewnior": _viewnior,
    "xterm": _xterm,
    "zim": _zim,
}
"""Program -> what puts its family together."""
