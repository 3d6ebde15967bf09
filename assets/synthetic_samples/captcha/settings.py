"""Where a puzzle stands: the page around it, as data, and the geometry of the two."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.themes import Split, Theme, themes_of

PuzzlePlatform = Literal["mobile", "web"]
Layout = Literal["column", "side", "dialog"]

PADDING = 12
"""Pixels between the frame and the sides of the puzzle's box."""
LINE = 20
"""Height of a line of the instruction."""
BAR = {"mobile": 48, "web": 56}
HEADING = 44
FIELD = 62
"""Heights of the bar at the top, of the heading, and of a field with its label."""


@dataclass(frozen=True)
class SiteText:
    """What a page says: the name in its bar, its heading, the labels of its fields, its button and its link."""

    name: str
    heading: str
    fields: tuple[str, ...]
    button: str
    link: str


@dataclass(frozen=True)
class Site:
    """A page with a form that wants a puzzle solved. `above` is how many of its fields stand above the puzzle."""

    id: str
    split: Split
    layouts: tuple[Layout, ...]
    above: int
    texts: Mapping[Locale, SiteText]


SITES: tuple[Site, ...] = (
    Site("sign_in", "train", ("column", "dialog"), 1, {
        "en": SiteText("Larkfield Library", "Sign in", ("Reader number", "Password"), "Sign in", "Forgot it?"),
        "zh": SiteText("青禾图书馆", "读者登录", ("读者证号", "密码"), "登录", "忘记密码"),
    }),
    Site("comment", "train", ("column", "side"), 2, {
        "en": SiteText("Tidewater Journal", "Leave a comment", ("Your name", "Comment"), "Post comment", "Rules"),
        "zh": SiteText("潮声周刊", "发表评论", ("昵称", "评论内容"), "发布", "评论规则"),
    }),
    Site("account", "train", ("dialog", "side"), 2, {
        "en": SiteText("Orchard Post", "Create account", ("E-mail", "Nickname", "Password"), "Create", "Have one?"),
        "zh": SiteText("果园邮局", "注册账号", ("邮箱", "昵称", "密码"), "注册", "已有账号"),
    }),
    Site("lookup", "train", ("column",), 1, {
        "en": SiteText("Northway Parcels", "Find a parcel", ("Parcel number",), "Search", "Help"),
        "zh": SiteText("北路快运", "查询包裹", ("运单号",), "查询", "帮助"),
    }),
    Site("checkout", "heldout", ("side", "dialog"), 2, {
        "en": SiteText("Copper Kettle", "Check out", ("Deliver to", "Voucher code"), "Place order", "Back to basket"),
        "zh": SiteText("铜壶茶铺", "确认订单", ("收货地址", "优惠码"), "提交订单", "返回购物篮"),
    }),
    Site("booking", "heldout", ("column",), 1, {
        "en": SiteText("Riverbend Clinic", "Book a visit", ("Full name", "Preferred day"), "Request visit", "Call us"),
        "zh": SiteText("河湾诊所", "预约挂号", ("姓名", "就诊日期"), "提交预约", "电话咨询"),
    }),
    Site("petition", "heldout", ("column", "dialog"), 1, {
        "en": SiteText("Open Meadow", "Sign the petition", ("Town", "Message"), "Add my name", "Read it first"),
        "zh": SiteText("开阔草地", "联署倡议", ("所在城市", "留言"), "签名支持", "阅读全文"),
    }),
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Everything about a puzzle that a renewal keeps.

    Attributes:
        screen: width and height in pixels.
        layout: where on the page the puzzle's box is: in the column of the form, beside it, or above all as a dialog.
        picture_width: pixels of the puzzle's picture.
        shift: pixels by which the box is off its usual place.
    """

    split: Split
    platform: PuzzlePlatform
    locale: Locale
    theme: Theme
    site: Site
    layout: Layout
    difficulty: int
    screen: tuple[int, int]
    picture_width: int
    shift: tuple[int, int]

    @property
    def text(self) -> SiteText:
        """The words of the page."""
        return self.site.texts[self.locale]

    @property
    def box_at(self) -> tuple[int, int]:
        """The upper left corner of the puzzle's box."""
        width, bar = self.picture_width + 2 * PADDING, BAR[self.platform]
        x = (self.screen[0] - width) // 2
        if self.layout == "dialog":
            return x + self.shift[0], bar + 12 + self.shift[1]
        if self.layout == "side":
            return self.screen[0] // 2 + 60 + self.shift[0], bar + HEADING + self.shift[1] // 2
        above = min(self.site.above, 1 if self.platform == "web" else 2)
        return x + self.shift[0], bar + HEADING + above * FIELD

    @property
    def fields_above(self) -> int:
        """How many fields stand above the box in a column; beside and behind it, all are there."""
        return min(self.site.above, 1 if self.platform == "web" else 2) if self.layout == "column" else 0

    def header(self, instruction: str) -> int:
        """Height of the instruction above the frame."""
        return LINE * lines(instruction, self.picture_width) + 10

    def frame_at(self, instruction: str) -> tuple[int, int]:
        """The upper left corner of the frame."""
        x, y = self.box_at
        return x + PADDING, y + PADDING + self.header(instruction)

    def written(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "split": self.split,
            "platform": self.platform,
            "locale": self.locale,
            "theme": self.theme.name,
            "site": self.site.id,
            "layout": self.layout,
            "difficulty": self.difficulty,
            "screen": list(self.screen),
        }


def draw_setting(
    rng: random.Random, split: Split, platform: PuzzlePlatform, screen: tuple[int, int], difficulty: int
) -> Setting:
    """A random setting of a split."""
    locale: Locale = rng.choice(("en", "zh"))
    theme = rng.choice(themes_of(split))
    site = rng.choice([site for site in SITES if site.split == split])
    layout = rng.choice(site.layouts)
    if platform == "mobile":
        # A phone has no room beside its column.
        layout = "column" if layout == "side" else layout
        shift = (0, rng.randrange(0, 97, 8) if layout == "dialog" else 0)
        return Setting(split, platform, locale, theme, site, layout, difficulty, screen, screen[0] - 56, shift)
    shift = (rng.randrange(-96, 97, 8), rng.randrange(0, 65, 8) if layout != "column" else 0)
    return Setting(split, platform, locale, theme, site, layout, difficulty, screen, rng.choice((320, 340, 360)), shift)


def lines(text: str, width: int) -> int:
    """Lines that a text of 15 pixels takes, estimated from above: a Chinese character is a word of its own."""
    taken, count = 0.0, 1
    for word in _words(text):
        length = sum(15.2 if ord(c) > 0x2E7F else 9.6 for c in word.rstrip())
        if taken > 0 and taken + length > width:
            taken, count = 0.0, count + 1
        taken += length + (5.0 if word.endswith(" ") else 0.0)
    return count


def _words(text: str) -> list[str]:
    words = [""]
    for character in text:
        if ord(character) > 0x2E7F:
            words += [character, ""]
        else:
            words[-1] += character
            if character == " ":
                words.append("")
    return [word for word in words if word]
