"""The shipped specs, and what is said about a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.agent.vocabulary import WORDS
from assets.environments.apps import AppSpec, Control, load_spec, load_specs, load_themes
from assets.errors import ParameterError

SPECS = load_specs()


def test_there_are_enough_apps_of_each_platform_language_and_split() -> None:
    counts: dict[tuple[str, str, str], int] = {}
    for spec in SPECS.values():
        key = (spec.platform, spec.locale, spec.split)
        counts[key] = counts.get(key, 0) + 1
    for platform in ("mobile", "web"):
        for locale in ("en", "zh"):
            assert counts[platform, locale, "train"] >= 3
            assert counts[platform, locale, "heldout"] >= 2


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_word_is_of_the_closed_vocabulary(spec: AppSpec) -> None:
    shown = [spec.title, *(text for texts in spec.lists.values() for text in texts)]
    shown += [screen.title for screen in spec.screens.values() if screen.title]
    shown += [dialog.title for dialog in spec.dialogs.values()]
    for _, control in spec.all_controls():
        shown += control.options
        if control.kind != "list":
            shown.append(control.label)
    assert {word for word in shown if not word.startswith("$")} <= set(WORDS[spec.locale])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_word_names_one_thing_on_a_screen(spec: AppSpec) -> None:
    for name, screen in spec.screens.items():
        words = [screen.title] if screen.title and not screen.title.startswith("$") else []
        for control in screen.all_controls():
            if control.kind == "list":
                words += spec.lists.get(control.label, ())
            else:
                words += control.options[:1] or [control.label]
        assert len(words) == len(set(words)), f"{name}: {words}"


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_held_out_apps_wear_held_out_themes(spec: AppSpec) -> None:
    assert load_themes()[spec.theme].split == spec.split


def test_the_launcher_names_every_app_once() -> None:
    titles = [(spec.locale, spec.title) for spec in SPECS.values() if spec.platform == "mobile"]
    assert len(titles) == len(set(titles))


def test_a_control_is_written_as_its_kind_and_label() -> None:
    control = Control.model_validate({"button": "Send", "add": {"sent": "$To"}})
    assert (control.kind, control.label, control.key, control.records) == ("button", "Send", "Send", False)
    assert Control.model_validate({"button": "Play"}).records
    assert not Control.model_validate({"switch": "Mute"}).records


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "screens: {start: {controls: [{button: Play, opens: start}]}}",
            "screens.start.controls.0.opens: Extra inputs",
        ),
        ("screens: {start: {controls: [{button: Play, open: far}]}}", "start, button 'Play': opens 'far'"),
        ("screens: {start: {controls: [{button: Play, dialog: far}]}}", "shows 'far', but the dialogs are"),
        ("screens: {start: {controls: [{button: Play, needs: [To]}]}}", "no value 'To'; known: "),
        ("screens: {start: {controls: [{buton: Play}]}}", "exactly one kind of button, outline"),
        ("screens: {start: {}, lost: {}}", "no control leads to screen lost"),
        ("screens: {}", "at least one screen"),
        ("screens: {start: {controls: [{select: Sort, options: [a]}]}}", "at least two options"),
        ("screens: {start: {controls: [{radio: Map}]}}", "the key of its group"),
        ("screens: {start: {layout: rowz}}", "screens.start.layout"),
        ("screens: [", "not valid YAML"),
        ("theme: slate", "'theme' is given twice, in lines 7 and 8"),
    ],
)
def test_a_broken_spec_is_named_with_its_place(tmp_path: Path, change: str, message: str) -> None:
    head = "id: toy\ntitle: Toy\nplatform: mobile\nlocale: en\nsplit: train\ncategory: toys\ntheme: paper\n"
    path = tmp_path / "toy.yaml"
    path.write_text(head + change + "\n", encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        load_spec(path)
    assert "toy.yaml" in str(caught.value)
    assert message in str(caught.value)
