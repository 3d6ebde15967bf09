"""Queries in words, in English and Chinese: by text, by icon, by function, by relation and by state."""

from __future__ import annotations

import random
from collections.abc import Mapping

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.queries import Query

ROLES: Mapping[str, Mapping[Locale, str]] = {
    "button": {"en": "button", "zh": "按钮"},
    "link": {"en": "link", "zh": "链接"},
    "checkbox": {"en": "checkbox", "zh": "复选框"},
    "switch": {"en": "switch", "zh": "开关"},
    "radio": {"en": "radio button", "zh": "单选按钮"},
    "tab": {"en": "tab", "zh": "标签页"},
    "textbox": {"en": "text field", "zh": "输入框"},
    "searchbox": {"en": "search field", "zh": "搜索框"},
    "combobox": {"en": "drop-down list", "zh": "下拉框"},
    "slider": {"en": "slider", "zh": "滑块"},
    "spinbutton": {"en": "number field", "zh": "数字框"},
    "menuitem": {"en": "menu item", "zh": "菜单项"},
    "treeitem": {"en": "tree item", "zh": "树节点"},
    "option": {"en": "option", "zh": "选项"},
    "gridcell": {"en": "cell", "zh": "单元格"},
}

GROUP_ROLES: Mapping[str, Mapping[Locale, str]] = {
    "toolbar": {"en": "toolbar", "zh": "工具栏"},
    "navigation": {"en": "navigation bar", "zh": "导航栏"},
    "dialog": {"en": "dialog", "zh": "对话框"},
    "table": {"en": "table", "zh": "表格"},
    "menu": {"en": "menu", "zh": "菜单"},
    "tablist": {"en": "tab bar", "zh": "标签栏"},
}

STATE_WORDS: Mapping[tuple[str, str, str], Mapping[Locale, tuple[str, ...]]] = {
    ("checkbox", "checked", "true"): {"en": ("ticked", "checked"), "zh": ("已勾选的", "打了勾的")},
    ("checkbox", "checked", "false"): {"en": ("unticked", "unchecked"), "zh": ("未勾选的", "没打勾的")},
    ("switch", "checked", "true"): {"en": ("switched-on", "turned-on"), "zh": ("已打开的", "开着的")},
    ("switch", "checked", "false"): {"en": ("switched-off", "turned-off"), "zh": ("已关闭的", "关着的")},
    ("radio", "checked", "true"): {"en": ("selected", "chosen"), "zh": ("已选中的", "选中的")},
    ("tab", "selected", "true"): {"en": ("selected", "current"), "zh": ("当前的", "选中的")},
    ("treeitem", "selected", "true"): {"en": ("selected", "highlighted"), "zh": ("选中的", "高亮的")},
    ("treeitem", "expanded", "true"): {"en": ("expanded", "open"), "zh": ("已展开的", "展开的")},
    ("treeitem", "expanded", "false"): {"en": ("collapsed", "closed"), "zh": ("已折叠的", "收起的")},
    ("option", "selected", "true"): {"en": ("selected", "highlighted"), "zh": ("选中的", "高亮的")},
    ("button", "pressed", "true"): {"en": ("pressed", "active"), "zh": ("按下的", "激活的")},
    ("button", "expanded", "true"): {"en": ("expanded", "open"), "zh": ("已展开的", "展开的")},
    ("combobox", "expanded", "true"): {"en": ("expanded", "open"), "zh": ("已展开的", "展开的")},
}

VERBS: Mapping[Locale, tuple[str, ...]] = {
    "en": ("Click {thing}", "Select {thing}", "Point at {thing}", "Choose {thing}"),
    "zh": ("点击{thing}", "选择{thing}", "请点击{thing}", "单击{thing}"),
}

ORDINALS: Mapping[int, Mapping[Locale, str]] = {
    1: {"en": "first", "zh": "第一个"},
    2: {"en": "second", "zh": "第二个"},
    3: {"en": "third", "zh": "第三个"},
    4: {"en": "fourth", "zh": "第四个"},
    5: {"en": "fifth", "zh": "第五个"},
    6: {"en": "sixth", "zh": "第六个"},
    -1: {"en": "last", "zh": "最后一个"},
}

FUNCTIONS: Mapping[Locale, tuple[str, ...]] = {
    "en": ("{function}", "I want to {function}", "Where do I click to {function}?", "Please {function}"),
    "zh": ("{function}", "我想{function}", "要{function}，该点哪里？", "请{function}"),
}


def instruction(
    query: Query, locale: Locale, icon_words: Mapping[str, Mapping[Locale, str]], rng: random.Random
) -> str:
    """A query in words.

    Args:
        locale: the language to ask in; quoted texts and functions stay as they are.
        icon_words: icon name -> what a person calls it, by language.
    """
    if query.by == "function":
        text = rng.choice(FUNCTIONS[locale]).format(function=query.function)
        return text[:1].upper() + text[1:]
    return rng.choice(VERBS[locale]).format(thing=_thing(query, locale, icon_words, rng))


def _thing(query: Query, locale: Locale, icon_words: Mapping[str, Mapping[Locale, str]], rng: random.Random) -> str:
    if query.by == "text":
        return f'"{query.text}"' if locale == "en" else f"“{query.text}”"
    if query.by == "icon":
        word = icon_words[query.icon][locale]
        return f"the {word} icon" if locale == "en" else f"{word}图标"
    role = ROLES[query.role][locale]
    if locale == "en":
        words = ["the"]
        words += [ORDINALS[query.ordinal]["en"]] if query.ordinal else []
        words += [_state_word(query, locale, rng)] if query.state else []
        return " ".join([*words, role, *_english_place(query)])
    place = _chinese_place(query)
    ordinal = ORDINALS[query.ordinal]["zh"] if query.ordinal else ""
    state = _state_word(query, locale, rng) if query.state else ""
    return (
        f"{place}{ordinal}{state}{role}"
        if query.ordinal
        else f"{place}{'的' if place and not state else ''}{state}{role}"
    )


def _state_word(query: Query, locale: Locale, rng: random.Random) -> str:
    assert query.state is not None
    return rng.choice(STATE_WORDS[query.role, *query.state][locale])


def _english_place(query: Query) -> list[str]:
    words = [f'for "{query.name}"'] if query.name else []
    words += [f'in the row "{query.row}"'] if query.row else []
    words += [f'under "{query.group}"'] if query.group else []
    words += [f"in the {GROUP_ROLES[query.group_role]['en']}"] if query.group_role else []
    return words


def _chinese_place(query: Query) -> str:
    place = f"“{query.name}”" if query.name else ""
    place += f"“{query.row}”这一行" if query.row else ""
    place += f"“{query.group}”下" if query.group else ""
    place += f"{GROUP_ROLES[query.group_role]['zh']}里" if query.group_role else ""
    return place
