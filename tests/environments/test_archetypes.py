"""Full-size phone apps: what ships, what each can do by real taps, and what is said about a broken one."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.agent.actions import Action, from_pixel
from assets.environments.apps import (
    AppSpec,
    Clause,
    find_spec,
    head_of,
    load_heads,
    load_icons,
    load_looks,
    load_spec,
    parse_condition,
    read_head,
)
from assets.environments.archetypes import ARCHETYPES, expand, load_archetype
from assets.environments.chromium import Chromium
from assets.environments.session import Element
from assets.environments.simulated import SimulatedSession
from assets.environments.task import TaskContract
from assets.errors import ParameterError
from tests.environments.structure import structure

PHONES = {name: head for name, head in load_heads().items() if head.scale == "full" and head.platform == "mobile"}
SIZE = (360, 720)
GUIDE = Path(__file__).parents[2] / "docs" / "your_own_apps.md"


class Page(SimulatedSession):
    """The apps of a phone on a page of their own, without the phone around it."""

    platform = "mobile"
    touch = True

    def _perform(self, action: Action) -> None:
        if action.name == "PressBack":
            self.page.evaluate("hesper.back()")
        else:
            super()._perform(action)


@pytest.fixture(scope="module")
def phone(chromium: Chromium) -> Iterator[Page]:
    with Page(SIZE, chromium) as session:
        yield session


def start(session: Page, app: str, **state: Any) -> None:
    locale = session.heads[app].locale
    session.reset(TaskContract("t", "mobile", app, locale, "", initial_state=state))


def shown(session: Page) -> list[Element]:
    return [element for element in session.elements() if element.visible]


def tap(session: Page, *names: str) -> None:
    """Tap what has each label or id, one after the other."""
    for name in names:
        found = [element for element in shown(session) if name in (element.id, element.label)]
        assert found, f"no '{name}' among {[element.id for element in shown(session)]}"
        session.act(Action("Click", point=from_pixel(*found[0].center, *session.size)))


def write(session: Page, field: str, text: str) -> None:
    tap(session, field)
    session.act(Action("Type", content=text))


def of(session: Page, app: str) -> dict[str, Any]:
    state: dict[str, Any] = session.state()["apps"][app]
    return state


# --- what ships -------------------------------------------------------------------------------------------------------


def test_there_are_enough_phone_apps_of_each_language() -> None:
    languages = Counter(head.locale for head in PHONES.values())
    assert languages["zh"] >= 100
    assert languages["en"] >= 70
    assert len({head.archetype for head in PHONES.values()}) >= 20
    assert len({head.category for head in PHONES.values()}) >= 12
    for locale, count in languages.items():
        held_out = sum(head.split == "heldout" for head in PHONES.values() if head.locale == locale)
        assert 0.2 <= held_out / count <= 0.35
    titles = Counter((head.locale, head.title.casefold()) for head in PHONES.values())
    assert max(titles.values()) == 1


def test_every_app_loads_as_its_head_says_and_wears_a_look_of_its_split() -> None:
    for name, head in PHONES.items():
        spec = find_spec(name)
        assert (spec.title, spec.category, spec.split, spec.scale) == (head.title, head.category, head.split, "full")
        assert load_looks()[spec.theme].split == spec.split, name
        assert spec.icon in load_icons(), name


def test_any_two_apps_differ_in_more_than_words_and_colours() -> None:
    structures = {name: structure(find_spec(name)) for name in PHONES}
    assert [pair for pair in combinations(structures, 2) if structures[pair[0]] == structures[pair[1]]] == []


def test_the_apps_of_an_archetype_do_not_share_their_content() -> None:
    def main(name: str) -> set[str]:
        rows = next(iter(find_spec(name).initial_state()["lists"].values()))
        return {str(sorted(row.items())) for row in rows}

    for one, other in combinations(PHONES, 2):
        if (PHONES[one].archetype, PHONES[one].locale) == (PHONES[other].archetype, PHONES[other].locale):
            assert len(main(one) & main(other)) <= 1, f"{one}, {other}"


# --- the language -----------------------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name != "and")
CLAUSES = st.one_of(
    st.builds(Clause, NAMES, st.sampled_from(["is", "not"])),
    st.builds(
        Clause,
        NAMES,
        st.sampled_from(["=", "!=", "<", ">", "<=", ">=", "~"]),
        st.from_regex(r"[a-z0-9.]{1,8}", fullmatch=True).filter(lambda value: value != "and"),
        st.booleans(),
    ),
)


@given(st.lists(CLAUSES, min_size=1, max_size=4))
def test_conditions_are_read_as_they_are_written(clauses: list[Clause]) -> None:
    def written(clause: Clause) -> str:
        if clause.op in ("is", "not"):
            return ("!" if clause.op == "not" else "") + clause.name
        return f"{clause.name} {clause.op} {'$' if clause.reference else ''}{clause.value}"

    assert parse_condition(" and ".join(map(written, clauses))) == tuple(clauses)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_every_choice_of_features_and_variants_gives_a_whole_app(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(path.stem for path in ARCHETYPES.glob("*.yaml"))))
    archetype = load_archetype(name)
    switches = [("" if data.draw(st.booleans()) else "!") + feature for feature in archetype.features]
    variants = {variant: data.draw(st.sampled_from(values)) for variant, values in archetype.variants.items()}
    document = {
        "id": "any", "title": "Any", "platform": "mobile", "category": "any", "theme": "sky", "split": "train",
        "locale": data.draw(st.sampled_from(sorted(archetype.words))), "archetype": name, "features": switches,
        "variants": variants,
    }  # fmt: skip
    spec = AppSpec.model_validate(expand(document, Path("any.yaml")))
    assert spec.scale == "full"
    assert "@" not in re.sub(r"[\w.]+@[\w.]+", "", "".join(control.label for _, control in spec.all_controls()))


HEAD = (
    "id: toy\ntitle: Toy\nplatform: mobile\nlocale: en\nsplit: train\ncategory: toys\ntheme: sky\nscale: full\n"
    "fields: {notes: {title: '', done: false}}\n"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("screens: {a: {controls: [{list: note}]}}", "a, list 'note': no list 'note'; known: notes"),
        ("screens: {a: {controls: [{list: notes, sort: size, filter: kind}]}}", "no value 'kind'"),
        ("screens: {a: {controls: [{list: notes, title: '{titel}'}]}}", "no name 'titel'; known: done, id"),
        ("screens: {a: {controls: [{text: '{now|clock}'}]}}", "no format 'clock'; known: date, day"),
        ("screens: {a: {controls: [{list: notes, where: done is true}]}}", "'done is true' is no condition"),
        ("screens: {a: {controls: [{list: notes, where: wet}]}}", "no name 'wet'"),
        ("screens: {a: {controls: [{button: Add, insert: {notes: {name: x}}}]}}", "no field 'name'; known: done"),
        ("screens: {a: {controls: [{button: Add, icon: unicorn, back: true}]}}", "no icon 'unicorn'; known: app"),
        ("screens: {a: {controls: [{button: Add}, {outline: Add}]}}", "a: two controls are called 'Add'"),
        ("lists: {notes: [{titel: x}]}\nscreens: {a: {}}", "lists.notes.0: no field 'titel'"),
        ("lists: {notes: [x]}\nscreens: {a: {}}", "lists.notes.0: a row of a full app is a record"),
        ("computed: {many: {count: note}}\nscreens: {a: {}}", "computed.many: no list 'note'"),
        ("computed: {many: {count: notes, sum: notes}}\nscreens: {a: {}}", "either the count of a list or a sum"),
        ("screens: {a: {controls: [{segmented: Kind, options: [x]}]}}", "needs at least two options"),
        ("archetype: chatt\n", "no archetype 'chatt'; known: alarms"),
        ("archetype: chat\nfeatures: [call]\n", "'chat' has no 'call'; known: "),
        ("archetype: chat\nvariants: {list: rows}\n", "no 'list: rows'; known: compose: fab, tool"),
        ("archetype: chat\nwords: {chat: x}\n", "words: no 'chat'; known: "),
        ("archetype: chat\nextend: {chatz: {}}\n", "no screen 'chatz'; known: chats"),
    ],
)
def test_a_broken_spec_is_named_with_its_place(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        load_spec(path)
    assert message in str(caught.value)
    if "no archetype" not in message:
        assert "toy.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("platform: phone", "toy.yaml: platform: 'phone' is none of mobile, web"),
        ("locale: fr  # not yet", "toy.yaml: locale: 'fr' is none of en, zh"),
        ("id: boy", "toy.yaml: its id is 'boy'; it must be the file's name"),
        ("title: 'Toy", "toy.yaml: its first lines must name id, title, platform, …"),
    ],
)
def test_a_broken_head_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(re.sub(rf"(?m)^{line.partition(':')[0]}: .*$", line, HEAD), encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        read_head(path)
    assert message in str(caught.value)


def test_dates_and_switches_are_texts_where_they_look_like_texts(tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(HEAD + "lists: {notes: [{title: 2026-05-18}]}\nscreens: {on: {controls: [{text: no}]}}")
    spec = load_spec(path)
    assert spec.lists["notes"][0] == {"title": "2026-05-18"}
    assert (spec.start, spec.screens["on"].controls[0].label) == ("on", "no")


# --- at work ----------------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    controls = "[{row: A, icon: wrench}, {row: B, when: gone}, {button: C, dialog: d}]"
    body = (
        f"icon: gear\nscreens: {{a: {{controls: {controls}}}}}\ndialogs: {{d: {{title: '{{gone}}', controls: []}}}}\n"
    )
    path.write_text(HEAD + body, encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        load_spec(path)
    assert [line.partition("; known")[0] for line in str(caught.value).splitlines()] == [
        "toy.yaml: icon: no icon 'gear'",
        "toy.yaml: dialog:d: no name 'gone'",
        "toy.yaml: a, row 'A': no icon 'wrench'",
        "toy.yaml: a, row 'B': no name 'gone'",
    ]


@pytest.fixture(scope="module")
def plants(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The example of the guide, as a reader would save it."""
    example = re.findall(r"```yaml\n(id: .*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[0]
    path = tmp_path_factory.mktemp("apps") / "plants-en.yaml"
    path.write_text(example, encoding="utf-8")
    assert read_head(path) == head_of(load_spec(path)), "its comments are none of its values"
    with Page(SIZE, chromium, specs={"plants-en": load_spec(path)}) as session:
        yield session


def test_the_guides_example_searches_filters_likes_and_undoes(plants: Page) -> None:
    start(plants, "plants-en")
    write(plants, "Search plants", "mon")
    assert [element.label for element in shown(plants) if element.kind == "row"] == ["1 plants need water", "Monstera"][
        1:
    ]
    tap(plants, "Clear", "Liked")
    assert not any(element.kind == "row" for element in shown(plants))
    tap(plants, "All", "plants/plants/2/Like")
    assert of(plants, "plants-en")["lists"]["plants"][1]["liked"] is True
    assert plants.state()["view"]["screen"] == "plants", "a control in a row is not the row"
    before = of(plants, "plants-en")["lists"]
    tap(plants, "Monstera", "Watered today")
    assert of(plants, "plants-en")["lists"]["plants"][0]["watered"] == "2026-05-18"
    assert plants.state()["view"]["message"]["text"] == "Monstera is happy"
    tap(plants, "Undo")
    assert of(plants, "plants-en")["lists"] == before


def test_the_guides_example_refuses_an_empty_form_and_adds_and_removes(plants: Page) -> None:
    start(plants, "plants-en")
    tap(plants, "nav/Add", "Save")
    assert plants.state()["view"]["errors"] == {"new_name": "This field is required"}
    assert len(of(plants, "plants-en")["lists"]["plants"]) == 2
    write(plants, "Name", "Fern")
    tap(plants, "Place", "Balcony", "Save")
    assert of(plants, "plants-en")["lists"]["plants"][2] == {
        "id": "3", "name": "Fern", "place": "Balcony", "every": 7, "watered": "2026-05-18", "thirsty": False,
        "liked": False,
    }  # fmt: skip
    tap(plants, "Fern", "plant/.every/plus", "Last watered", "picker/2026-05-02")
    assert of(plants, "plants-en")["lists"]["plants"][2]["every"] == 8
    assert of(plants, "plants-en")["lists"]["plants"][2]["watered"] == "2026-05-02"
    tap(plants, "Remove", "Cancel", "Remove", "dialog:remove/Remove")
    assert [row["name"] for row in of(plants, "plants-en")["lists"]["plants"]] == ["Monstera", "Basil"]


def test_back_leads_from_dialog_to_screen_to_start_to_launcher(plants: Page) -> None:
    start(plants, "plants-en")
    tap(plants, "Monstera", "Remove")
    seen = []
    for _ in range(3):
        plants.act(Action("PressBack"))
        state = plants.state()
        seen.append((state["foreground"], state["view"]["screen"], state["view"]["dialog"]))
    assert seen == [("plants-en", "plant", None), ("plants-en", "plants", None), ("launcher", "", None)]


SHELF = {
    "id": "shelf", "title": "Shelf", "platform": "mobile", "locale": "en", "split": "train", "category": "shopping",
    "theme": "sky", "scale": "full", "values": {"offline": False, "fee": 3, "near": False},
    "fields": {"goods": {"name": "", "price": 1, "many": 0}},
    "lists": {"goods": [{"name": f"Good {n}", "price": n, "many": 0} for n in range(1, 21)]},
    "computed": {"total": {"sum": "goods", "of": ["price", "many"], "plus": ["fee"]}},
    "screens": {
        "goods": {
            "failure": {"when": "offline", "text": "Gone", "retry": {"button": "Retry", "put": {"offline": False}}},
            "top": [{"tool": "Near", "asks": "location", "put": {"near": True}}],
            "controls": [{"list": "goods", "title": "{name}", "meta": "{many}", "hold": "more", "open": "good"}],
            "bottom": [
                {"text": "{total|money}"},
                {"button": "Pay", "only": "total > 10", "otherwise": "Too little",
                 "update": {"goods": {"where": "many > 0", "set": {"many": 0}}}},
            ],
        },
        "good": {
            "title": "{name}",
            "controls": [
                {"stepper": "How many", "key": ".many", "maximum": 3}, {"slider": "Fee", "key": "fee", "maximum": 10},
                {"keypad": "", "key": "sum", "type": "calculator"}, {"time": "At", "key": "at"},
            ],
        },
    },
    "dialogs": {"more": {"title": "{name}", "style": "sheet",
                         "controls": [{"row": "Take two", "bump": {"many": 2}, "close": True}]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def shelf(chromium: Chromium) -> Iterator[Page]:
    with Page(SIZE, chromium, specs={"shelf": AppSpec.model_validate(SHELF)}) as session:
        yield session


def test_long_lists_scroll_under_the_finger_and_back_keeps_the_place(shelf: Page) -> None:
    start(shelf, "shelf")
    assert not any(element.label == "Good 18" for element in shown(shelf))
    shelf.act(Action("Swipe", point=(500, 800), end=(500, 200)))
    shelf.act(Action("Swipe", point=(500, 800), end=(500, 200)))
    place = shelf.state()["view"]["scroll"]
    assert place > 300
    tap(shelf, "Good 18")
    assert shelf.state()["view"]["item"] == {"list": "goods", "id": "18"}
    shelf.act(Action("PressBack"))
    assert shelf.state()["view"]["scroll"] == place
    assert any(element.label == "Good 18" for element in shown(shelf))


def test_a_long_press_opens_the_rows_sheet_and_totals_follow(shelf: Page) -> None:
    start(shelf, "shelf")
    row = next(element for element in shown(shelf) if element.label == "Good 5")
    shelf.act(Action("LongPress", point=from_pixel(*row.center, *SIZE)))
    assert shelf.state()["view"]["dialog"] == "more"
    tap(shelf, "Take two")
    assert of(shelf, "shelf")["lists"]["goods"][4]["many"] == 2
    assert shelf.page.evaluate("document.querySelector('.actionbar p').textContent") == "$13"
    tap(shelf, "Pay")
    assert of(shelf, "shelf")["lists"]["goods"][4]["many"] == 0
    tap(shelf, "Pay")
    assert shelf.state()["view"]["message"]["text"] == "Too little"


def test_steppers_sliders_clocks_and_sums(shelf: Page) -> None:
    start(shelf, "shelf")
    tap(shelf, "Good 2", *["good/.many/plus"] * 5)
    assert of(shelf, "shelf")["lists"]["goods"][1]["many"] == 3
    slider = next(element for element in shown(shelf) if element.kind == "slider")
    x0, y0, x1, y1 = slider.box
    middle = (y0 + y1) / 2
    begin, end = from_pixel(x0 + 2, middle, *SIZE), from_pixel(x0 + 0.7 * (x1 - x0), middle, *SIZE)
    shelf.act(Action("Drag", point=begin, end=end))
    assert of(shelf, "shelf")["values"]["fee"] == 7
    tap(shelf, *[f"good/sum/{key}" for key in ("2", "+", "3", "×", "4", "=")])
    assert of(shelf, "shelf")["values"]["sum"] == "14"
    tap(shelf, "good/sum/÷", "good/sum/0", "good/sum/=")
    assert of(shelf, "shelf")["values"]["sum"] == "14÷0", "what can't be worked out stays"
    shelf.act(Action("Swipe", point=(500, 800), end=(500, 300)))
    tap(shelf, "At", "picker/21:00", "picker/m35", "OK")
    assert of(shelf, "shelf")["values"]["at"] == "21:35"


def test_a_permission_is_asked_for_and_the_answer_is_kept(shelf: Page) -> None:
    start(shelf, "shelf")
    tap(shelf, "Near", "permission/denied")
    assert (
        of(shelf, "shelf")["values"] | {"near": False, "permission_location": "denied"} == of(shelf, "shelf")["values"]
    )
    tap(shelf, "Near")
    assert shelf.state()["view"]["asking"] is None, "a refusal is not asked about again"
    start(shelf, "shelf")
    tap(shelf, "Near", "permission/once")
    assert of(shelf, "shelf")["values"]["near"] is True
    shelf.page.evaluate("hesper.launcher(false)")
    assert of(shelf, "shelf")["values"]["permission_location"] == "ask", "once is over when the app is left"


def test_a_screen_that_failed_to_load_can_be_tried_again(shelf: Page) -> None:
    start(shelf, "shelf", **{"apps.shelf.values.offline": True})
    assert [element.label for element in shown(shelf)] == ["Near", "Retry", "Pay"]
    tap(shelf, "Retry")
    assert any(element.label == "Good 1" for element in shown(shelf))


def test_other_sizes_show_the_same_app_larger(chromium: Chromium) -> None:
    with Page((1080, 2400), chromium) as large, Page(SIZE, chromium) as small:
        start(large, min(PHONES))
        start(small, min(PHONES))
        assert large.digest() == small.digest()
        boxes = {element.id: element.box for element in shown(large)}
        top = min(shown(small), key=lambda element: (element.box[1], element.box[0]))
        assert boxes[top.id][0] == pytest.approx(3 * top.box[0], abs=4)
        tap(large, top.id)


def sample() -> list[str]:
    """One app of every third archetype."""
    by_archetype: dict[str, list[str]] = {}
    for name, head in PHONES.items():
        by_archetype.setdefault(head.archetype, []).append(name)
    return [names[number % len(names)] for number, names in enumerate(by_archetype.values()) if number % 3 == 0]


@pytest.mark.parametrize("app", sample())
def test_an_app_survives_a_walk_and_comes_back(phone: Page, app: str) -> None:
    rng = random.Random(app)
    start(phone, app)
    first = (phone.digest(), phone.observe().png)
    screens = set()
    for _ in range(8):
        choices = [element for element in shown(phone) if "@back" not in element.id]
        if not choices:
            break
        phone.act(Action("Click", point=from_pixel(*rng.choice(choices).center, *SIZE)))
        screens.add(phone.state()["view"]["screen"])
        measured = phone.page.evaluate("hesper.elements()")
        assert measured, f"{app}: nothing to act on"
        assert [identity for _, _, _, identity, _, fits in measured if not fits] == []
        assert phone.page.evaluate("document.querySelector('.body').scrollWidth <= innerWidth"), app
    later, snapshot = (phone.digest(), pixels(phone.observe().png)), phone.snapshot()
    start(phone, app)
    assert (phone.digest(), phone.observe().png) == first
    phone.restore(snapshot)
    assert (phone.digest(), pixels(phone.observe().png)) == later


def pixels(png: bytes) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        return image.convert("RGB").tobytes()


def test_only_the_app_that_is_open_travels_to_the_page(chromium: Chromium) -> None:
    with Page(SIZE, chromium) as session:
        app = min(PHONES)
        start(session, app)
        assert session._shipped == {app}
        other = next(name for name in PHONES if PHONES[name].locale == PHONES[app].locale and name != app)
        session.page.evaluate("hesper.launcher(false)")
        tap(session, PHONES[other].title)
        state = session.state()
        assert (state["foreground"], state["view"]["screen"]) == (other, find_spec(other).start)
        assert {app, other} == session._shipped
