"""Rotation: parts of a picture are turned, by a slider, by buttons or by hand, until they point where they should."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.figures import UPRIGHT, landscape, letters, part, picture, shape
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family
from assets.synthetic_samples.captcha.mechanisms import (
    ROW,
    Control,
    Freedom,
    Mechanism,
    Motion,
    Point,
    Values,
    apart,
    bearing,
    moving_type,
    only,
    search,
    sliding,
    travel,
    turned,
    turning_tolerance,
)
from assets.synthetic_samples.captcha.text_entry import paint_face

FAMILY: Family = "rotation"

ASPECT = 0.62

FULL = 340.0
"""Degrees by which a slider turns a part: less than a whole turn, so that each angle comes once."""


def _middle(size: list[int]) -> Point:
    return (size[0] / 2, size[1] / 2)


def _radius(height: float) -> float:
    """Of what is turned."""
    return height * 0.45


def _hold(height: float) -> float:
    """How far from the middle it is taken hold of."""
    return _radius(height) * 0.9


def _by_slider(draft: Draft) -> tuple[Facts, Answer]:
    """A slider's pace in degrees, its tolerance, and where it must stand."""
    way, tolerance = travel(draft.width), draft.grade(9, 6)
    target, pace = round(draft.rng.uniform(0.2, 0.95) * way), FULL / way
    return {"pace": pace, "near": round(pace * tolerance, 2), "tolerances": [tolerance]}, [target]


def _by_hand(draft: Draft, target: int) -> Facts:
    """A start far from the target, and the tolerance."""
    tolerance = turning_tolerance(draft, _hold(draft.height), 14, 8)
    return {"start": (target + draft.rng.randint(50, 310)) % 360, "near": tolerance, "tolerances": [tolerance]}


def _hand_moves(facts: Facts) -> Mechanism:
    """One part that is turned by hand about the middle."""
    size = facts["size"]
    control = Control("turn", "turned", (0,), centre=_middle(size), radius=_hold(size[1]))
    motion = Motion("turn", "turned", 0, vector=_middle(size))
    return Mechanism((size[0], size[1]), (Freedom(facts["start"], 0, 360, 360),), (control,), (motion,))


def _load(facts: Facts) -> float:
    """Finer, and among more that is not meant, is harder."""
    first, second = facts.get("teeth", (1, 1))
    things = len(facts.get("items", ())) + 2 * len(facts.get("starts", ()))
    return 90 / min(facts["tolerances"]) + things + 30 / facts.get("step", 30) + 6 * first / second


# --- upright ---------------------------------------------------------------------------------------------------------


def _paint_upright(canvas: Canvas, facts: Facts) -> str:
    """A picture on a disc that turns with it."""
    (x, y), radius = _middle([canvas.width, canvas.height]), _radius(canvas.height)
    drawn = paint.disc((x, y), radius, canvas.theme.surface, canvas.theme.line)
    drawn += picture(facts["picture"], x, y, radius / 52, canvas.rng.sample(canvas.theme.fills, 3))
    for _ in range(3 * canvas.difficulty):
        spot = turned((x, y - radius * canvas.rng.uniform(0.3, 0.95)), (x, y), canvas.rng.uniform(0, 360))
        drawn += paint.disc(spot, 3, canvas.theme.line)
    return paint.ground(canvas, canvas.difficulty / 5) + part("turned", drawn)


def _tilt(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    return apart(mechanism.angle("turned", values), 0)


def _draw_slider_upright(draft: Draft) -> tuple[Facts, Answer]:
    facts, answer = _by_slider(draft)
    return {**facts, "picture": draft.rng.choice(UPRIGHT[draft.split]), "level": answer[0]}, answer


def _slider_upright_moves(facts: Facts) -> Mechanism:
    motion = Motion("turn", "turned", 0, factor=facts["pace"], offset=facts["level"], vector=_middle(facts["size"]))
    return sliding(facts["size"], [motion])


def _draw_steps_upright(draft: Draft) -> tuple[Facts, Answer]:
    step = (45, 40, 30, 24, 20)[draft.difficulty - 1]
    start = step * draft.rng.randint(1, 360 // step - 1)
    facts = {"picture": draft.rng.choice(UPRIGHT[draft.split]), "step": step, "start": start}
    return {**facts, "near": 1, "tolerances": [step / 3]}, [0]


def _steps_upright_moves(facts: Facts) -> Mechanism:
    width, height = facts["size"]
    buttons = [
        Control("step", name, (0,), ratio=facts["step"] * sign, label=label,
                box=(width / 2 + 70 * sign - 36, height + 7, width / 2 + 70 * sign + 36, height + 39))
        for name, sign, label in (("back", -1, "↺"), ("forth", 1, "↻"))
    ]  # fmt: skip
    motion = Motion("turn", "turned", 0, vector=_middle(facts["size"]))
    freedom = Freedom(facts["start"], 0, 360, 360)
    return Mechanism((width, height), (freedom,), tuple(buttons), (motion,), confirm=True, strip=ROW)


def _draw_hand_upright(draft: Draft) -> tuple[Facts, Answer]:
    return {**_by_hand(draft, 0), "picture": draft.rng.choice(UPRIGHT[draft.split])}, [0]


# --- lined up --------------------------------------------------------------------------------------------------------


def _draw_disc(draft: Draft) -> tuple[Facts, Answer]:
    facts, answer = _by_slider(draft)
    names = {"picture": draft.rng.choice(UPRIGHT[draft.split]), "level": answer[0]}
    return {**facts, **names, "lean": draft.rng.randint(20, 340)}, answer


def _paint_disc(canvas: Canvas, facts: Facts) -> str:
    """A leaning landscape, the middle of which is a disc of its own: to stand upright is not enough."""
    (x, y), reach = _middle([canvas.width, canvas.height]), canvas.width * 0.62
    scene = landscape(canvas, (x - reach, y - reach, x + reach, y + reach))
    scene += picture(facts["picture"], x, y, canvas.height / 110, canvas.rng.sample(canvas.theme.fills, 3))
    leaning = f'<g transform="rotate({facts["lean"]} {x:g} {y:g})">{scene}</g>'
    return leaning + part("turned", _cut_disc(canvas, leaning, (x, y), canvas.height * 0.32))


def _cut_disc(canvas: Canvas, scene: str, centre: Point, radius: float) -> str:
    """A round piece of a scene, with its rim."""
    mark = f"clip{canvas.rng.getrandbits(40):x}"
    hole = f'<clipPath id="{mark}"><circle cx="{centre[0]:g}" cy="{centre[1]:g}" r="{radius:g}"/></clipPath>'
    return f'{hole}<g clip-path="url(#{mark})">{scene}</g>{paint.disc(centre, radius, "none", "#ffffff", 2)}'


def _draw_rings(draft: Draft) -> tuple[Facts, Answer]:
    facts, answer = _by_slider(draft)
    share = draft.rng.uniform(0.35, 0.65)
    paces = [round(facts["pace"] * share, 4), round(-facts["pace"] * (1 - share), 4)]
    names = {"picture": draft.rng.choice(UPRIGHT[draft.split]), "level": answer[0], "paces": paces}
    return {**facts, **names, "lean": draft.rng.randint(0, 359)}, answer


def _rings_moves(facts: Facts) -> Mechanism:
    motions = [
        Motion("turn", name, 0, factor=pace, offset=facts["level"], vector=_middle(facts["size"]))
        for name, pace in zip(("inner", "outer"), facts["paces"], strict=True)
    ]
    return sliding(facts["size"], motions)


def _paint_rings(canvas: Canvas, facts: Facts) -> str:
    centre, radius = _middle([canvas.width, canvas.height]), _radius(canvas.height)
    x, y = centre
    scene = landscape(canvas, (x - radius, y - radius, x + radius, y + radius))
    scene += picture(facts["picture"], x, y, radius / 50, canvas.rng.sample(canvas.theme.fills, 3))
    leaning = f'<g transform="rotate({facts["lean"]} {x:g} {y:g})">{scene}</g>'
    outer = part("outer", _cut_disc(canvas, leaning, centre, radius))
    return paint.ground(canvas) + outer + part("inner", _cut_disc(canvas, leaning, centre, radius * 0.6))


def _twist(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """By how much the disc is turned against the ring."""
    return apart(mechanism.angle("inner", values), mechanism.angle("outer", values))


def _draw_reference(draft: Draft) -> tuple[Facts, Answer]:
    target = draft.rng.randint(15, 345)
    return {**_by_hand(draft, target), "picture": draft.rng.choice(UPRIGHT[draft.split]), "given": target}, [target]


def _paint_reference(canvas: Canvas, facts: Facts) -> str:
    """The picture that is turned in the middle, and the one to match in a corner."""
    fills = canvas.rng.sample(canvas.theme.fills, 3)
    (x, y), radius = _middle([canvas.width, canvas.height]), _radius(canvas.height)
    own = paint.disc((x, y), radius, canvas.theme.surface, canvas.theme.line)
    own += picture(facts["picture"], x, y, radius / 52, fills)
    side = canvas.width * 0.11
    given = paint.disc((side + 4, side + 4), side, canvas.theme.surface, canvas.theme.ink)
    given += picture(facts["picture"], side + 4, side + 4, side / 52, fills, facts["given"])
    return paint.ground(canvas, canvas.difficulty / 5) + part("turned", own) + given


# --- pointing --------------------------------------------------------------------------------------------------------


def _draw_dial(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(8, 12)
    step, offset = 360 / count, draft.rng.randint(0, 359)
    bearings = {str(number): round(offset + step * number) % 360 for number in range(count)}
    wanted = draft.rng.choice(list(bearings))
    items = [{"label": label, "bearing": angle} for label, angle in bearings.items()]
    facts = {**_by_hand(draft, bearings[wanted]), "items": items, "wanted": wanted, "terms": {"label": wanted}}
    return facts, [bearings[wanted]]


def _paint_dial(canvas: Canvas, facts: Facts) -> str:
    """A scale with a knob whose mark points at it."""
    centre, radius = _middle([canvas.width, canvas.height]), _radius(canvas.height)
    drawn = paint.ground(canvas, canvas.difficulty / 6) + paint.disc(centre, radius * 1.08, canvas.theme.surface)
    for item in facts["items"]:
        spot = turned((centre[0], centre[1] - radius * 0.92), centre, item["bearing"])
        drawn += letters(item["label"], *spot, 16, canvas.theme.ink)
    return drawn + part("turned", _needle(canvas, centre, radius * 0.95))


def _needle(canvas: Canvas, centre: Point, radius: float) -> str:
    """A knob that can be taken hold of all over, and its mark, which points up."""
    x, y = centre
    tip = [(x, y - radius * 0.74), (x - 10, y - radius * 0.5), (x + 10, y - radius * 0.5)]
    knob = paint.disc(centre, radius * 0.7, canvas.theme.fills[3]) + paint.polygon(tip, canvas.theme.on_fill)
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="#000000" fill-opacity="0"/>{knob}'


def _off_label(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """By how much the mark misses what is named."""
    (wanted,) = (item["bearing"] for item in facts["items"] if item["label"] == facts["wanted"])
    return apart(mechanism.angle("turned", values), wanted)


def _draw_arrow(draft: Draft) -> tuple[Facts, Answer]:
    facts, answer = _by_slider(draft)
    names, start = draft.icons(draft.number(4, 7)), draft.rng.randint(0, 359)
    wanted = (start + facts["pace"] * answer[0]) % 360
    gap = 360 / len(names)
    bearings = [
        wanted + gap * index + (draft.rng.uniform(-0.15, 0.15) * gap if index else 0) for index in range(len(names))
    ]
    centre, radius = _middle([draft.width, draft.height]), draft.height * 0.4
    items = [
        {"icon": name, "spot": turned((centre[0], centre[1] - radius), centre, angle)}
        for name, angle in zip(names, bearings, strict=True)
    ]
    draft.rng.shuffle(items)
    more = {"items": items, "wanted": names[0], "from": start, "terms": {"icon": draft.icon_name(names[0])}}
    return {**facts, **more}, answer


def _arrow_moves(facts: Facts) -> Mechanism:
    pace = facts["pace"]
    motion = Motion("turn", "turned", 0, factor=pace, offset=-facts["from"] / pace, vector=_middle(facts["size"]))
    return sliding(facts["size"], [motion])


def _paint_arrow(canvas: Canvas, facts: Facts) -> str:
    centre, drawn = _middle([canvas.width, canvas.height]), paint.ground(canvas, canvas.difficulty / 6)
    for item in facts["items"]:
        x, y = item["spot"]
        drawn += paint.icon(
            canvas, item["icon"], (x - 15, y - 15, x + 15, y + 15), canvas.rng.choice(canvas.theme.fills)
        )
    return drawn + part("turned", shape("arrow", *centre, canvas.height * 0.36, canvas.theme.ink))


def _off_icon(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """By how much the arrow misses the icon that is named."""
    centre = _middle(facts["size"])
    (wanted,) = (item["spot"] for item in facts["items"] if item["icon"] == facts["wanted"])
    return apart(mechanism.angle("turned", values), bearing(centre, wanted))


DIRECTIONS: dict[Locale, tuple[str, ...]] = {
    "en": ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"),
    "zh": ("北", "东北", "东", "东南", "南", "西南", "西", "西北"),
}
"""Clockwise."""

_NORTH: dict[Locale, str] = {"en": "N", "zh": "北"}


def _draw_compass(draft: Draft) -> tuple[Facts, Answer]:
    north = draft.rng.randint(0, 359) if draft.difficulty > 1 else 0
    wanted = draft.rng.randrange(8) if draft.difficulty > 2 else 2 * draft.rng.randrange(4)
    target = (north + 45 * wanted) % 360
    terms = {"direction": DIRECTIONS[draft.locale][wanted]}
    return {**_by_hand(draft, target), "north": north, "wanted": wanted, "terms": terms}, [target]


def _paint_compass(canvas: Canvas, facts: Facts) -> str:
    """A rose that says only where north is, and a needle."""
    centre, radius = _middle([canvas.width, canvas.height]), _radius(canvas.height)
    drawn = paint.disc(centre, radius * 1.06, canvas.theme.surface, canvas.theme.line)
    for index in range(8):
        ends = [turned((centre[0], centre[1] - radius * share), centre, 45 * index) for share in (0.9, 1.0)]
        drawn += paint.line(ends[0], ends[1], canvas.theme.ink, 3 if index % 2 == 0 else 1.5)
    drawn += letters(_NORTH[canvas.locale], centre[0], centre[1] - radius * 0.76, 18, canvas.theme.ink)
    rose = f'<g transform="rotate({facts["north"]} {centre[0]:g} {centre[1]:g})">{drawn}</g>'
    x, y = centre
    long, wide = radius * 0.62, radius * 0.13
    needle = paint.disc(centre, radius, "#00000000")
    needle += paint.polygon([(x, y - long), (x - wide, y), (x + wide, y)], canvas.theme.fills[0])
    needle += paint.polygon([(x, y + long), (x - wide, y), (x + wide, y)], canvas.theme.fills[3])
    return paint.ground(canvas, canvas.difficulty / 6) + rose + part("turned", needle)


def _off_course(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    return apart(mechanism.angle("turned", values), facts["north"] + 45 * facts["wanted"])


# --- works -----------------------------------------------------------------------------------------------------------


def _draw_gears(draft: Draft) -> tuple[Facts, Answer]:
    """A wheel that is turned drives a smaller one the other way round."""
    teeth = (12, (12, 12, 10, 9, 8)[draft.difficulty - 1])
    ratio = teeth[0] / teeth[1]
    period = 360 / ratio
    radius = draft.height * 0.33
    tolerance = turning_tolerance(draft, radius * 0.8, 13, 9)
    start, target = draft.rng.randrange(0, round(period)), draft.rng.randrange(0, round(period))
    if min((start - target) % period, (target - start) % period) <= 40:
        start = round((target + period / 2) % period)
    # The pointer is on the side away from the driver; the mark is where it is when the driver stands at 0.
    pointer = draft.rng.randint(-20, 200) % 360
    mark = (pointer + ratio * target) % 360
    facts = {"teeth": teeth, "radius": radius, "start": start, "mark": mark, "pointer": pointer, "period": period}
    return {**facts, "near": tolerance * ratio, "tolerances": [tolerance]}, [target]


def _gear_places(facts: Facts) -> tuple[Point, Point]:
    """The middles of the driver and the driven wheel."""
    width, height = facts["size"]
    first, second = facts["radius"], facts["radius"] * facts["teeth"][1] / facts["teeth"][0]
    left = (width - 2 * first - 2 * second) / 2
    return (left + first, height / 2), (left + 2 * first + second, height / 2)


def _gears_moves(facts: Facts) -> Mechanism:
    driver, driven = _gear_places(facts)
    control = Control("turn", "driver", (0,), centre=driver, radius=facts["radius"] * 0.8)
    motions = (
        Motion("turn", "driver", 0, vector=driver),
        Motion("turn", "driven", 0, factor=-facts["teeth"][0] / facts["teeth"][1], vector=driven),
    )
    period = facts["period"]
    width, height = facts["size"]
    return Mechanism((width, height), (Freedom(facts["start"], 0, period, period),), (control,), motions)


def _paint_gears(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    fills = canvas.rng.sample(canvas.theme.fills, 2)
    for name, centre, teeth, fill in zip(("driver", "driven"), _gear_places(facts), facts["teeth"], fills, strict=True):
        radius = facts["radius"] * teeth / facts["teeth"][0]
        wheel = ""
        for tooth in range(teeth):
            spot = turned((centre[0], centre[1] - radius), centre, 360 * tooth / teeth)
            wheel += paint.disc(spot, facts["radius"] * 0.12, fill)
        wheel += paint.disc(centre, radius * 0.94, fill) + paint.disc(centre, 8, canvas.theme.page)
        if name == "driven":
            spot = turned((centre[0], centre[1] - radius * 0.62), centre, facts["mark"])
            wheel += shape("star", *spot, radius * 0.42, canvas.theme.on_fill)
            tip, left, right = (
                turned((centre[0] + across, centre[1] - radius * far), centre, facts["pointer"])
                for across, far in ((0, 1.18), (-9, 1.4), (9, 1.4))
            )
            drawn += paint.polygon([tip, left, right], canvas.theme.ink)
        drawn += part(name, wheel)
    return drawn


def _off_pointer(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """By how much the star of the driven wheel misses the pointer."""
    return apart(mechanism.angle("driven", values) + facts["mark"], facts["pointer"])


CLOCK_ASPECT = 0.76


def _draw_clock(draft: Draft) -> tuple[Facts, Answer]:
    hour, minute = draft.rng.randint(1, 12), draft.rng.randrange(0, 60, (30, 30, 10, 10, 10)[draft.difficulty - 1])
    target = [(30 * hour + minute // 2) % 360, 6 * minute]
    reach = draft.height * 0.46
    tolerances = [turning_tolerance(draft, reach * share, 12, 9) for share in (0.58, 0.88)]
    start = [(target[0] + draft.rng.randint(60, 300)) % 360, (target[1] + draft.rng.randint(60, 300)) % 360]
    # The hands must not cover each other, where they start and where the first of them ends.
    while apart(start[0], start[1]) < 30 or apart(start[1], target[0]) < 30:
        start[1] = (target[1] + draft.rng.randint(60, 300)) % 360
    facts = {"time": [hour, minute], "start": start, "numbered": draft.difficulty < 4, "tolerances": tolerances}
    return {**facts, "terms": {"time": f"{hour}:{minute:02d}"}}, target


def _clock_moves(facts: Facts) -> Mechanism:
    (width, height), centre = facts["size"], _middle(facts["size"])
    names = (("hour", 0.58), ("minute", 0.88))
    controls = [
        Control("turn", name, (index,), centre=centre, radius=height * 0.46 * share, narrow=True)
        for index, (name, share) in enumerate(names)
    ]
    motions = [Motion("turn", name, index, vector=centre) for index, (name, _) in enumerate(names)]
    freedoms = [Freedom(start, 0, 360, 360) for start in facts["start"]]
    return Mechanism((width, height), tuple(freedoms), tuple(controls), tuple(motions), confirm=True)


def _paint_clock(canvas: Canvas, facts: Facts) -> str:
    centre, radius = _middle([canvas.width, canvas.height]), canvas.height * 0.46
    drawn = paint.ground(canvas) + paint_face(canvas, centre, radius, facts["numbered"])
    for name, share, width, fill in (
        ("hour", 0.64, 16, canvas.theme.fills[0]),
        ("minute", 0.94, 14, canvas.theme.fills[1]),
    ):
        drawn += part(name, paint.line(centre, (centre[0], centre[1] - radius * share), fill, width))
    return drawn + paint.disc(centre, 10, canvas.theme.ink)


def _solve_clock(facts: Facts) -> list[Answer]:
    """Where each hand stands at the time, by trying all angles."""
    mechanism, (hour, minute) = _clock_moves(facts), facts["time"]
    wanted = (30 * (hour % 12) + minute / 2, 6 * minute)
    found = [
        search(mechanism, lambda values: apart(mechanism.angle(name, values), wanted[index]), 0.5, index)  # noqa: B023
        for index, name in enumerate(("hour", "minute"))
    ]
    return [list(pair) for pair in product(*found)]


RINGS: dict[Locale, tuple[str, str, str]] = {"en": ("Outer", "Middle", "Inner"), "zh": ("外圈", "中圈", "内圈")}


def _draw_lock(draft: Draft) -> tuple[Facts, Answer]:
    step = (60, 60, 45, 36, 30)[draft.difficulty - 1]
    places = 360 // step
    count = 2 if draft.difficulty == 1 else 3
    mark = step * draft.rng.randrange(places)
    starts = [(mark + step * draft.rng.randint(1, places - 1)) % 360 for _ in range(count)]
    labels = RINGS[draft.locale] if count == 3 else (RINGS[draft.locale][0], RINGS[draft.locale][2])
    facts = {"mark": mark, "starts": starts, "step": step, "labels": labels}
    return {**facts, "tolerances": [step / 3] * count}, [mark] * count


def _lock_moves(facts: Facts) -> Mechanism:
    (width, height), centre, count = facts["size"], _middle(facts["size"]), len(facts["starts"])
    pitch = width / count
    buttons = [
        Control("step", f"button{index}", (index,), ratio=facts["step"], label=f"{facts['labels'][index]} ↻",
                box=(pitch * index + 4, height + 7, pitch * (index + 1) - 4, height + 39))
        for index in range(count)
    ]  # fmt: skip
    motions = [Motion("turn", f"ring{index}", index, vector=centre) for index in range(count)]
    freedoms = [Freedom(start, 0, 360, 360) for start in facts["starts"]]
    return Mechanism((width, height), tuple(freedoms), tuple(buttons), tuple(motions), confirm=True, strip=ROW)


def _paint_lock(canvas: Canvas, facts: Facts) -> str:
    """Rings, each with a dot, and a mark outside."""
    centre, radius, count = _middle([canvas.width, canvas.height]), canvas.height * 0.42, len(facts["starts"])
    fills = canvas.rng.sample(canvas.theme.fills, count)
    tip, left, right = (
        turned((centre[0] + across, centre[1] - radius - far), centre, facts["mark"])
        for across, far in ((0, 2), (-9, 16), (9, 16))
    )
    drawn = paint.ground(canvas, canvas.difficulty / 6) + paint.polygon([tip, left, right], canvas.theme.ink)
    for index, fill in enumerate(fills):
        outer = radius * (1 - index / (count + 0.5))
        width = radius / (count + 0.5)
        ring = paint.disc(centre, outer - 1, fill, canvas.theme.page, 3)
        ring += paint.disc((centre[0], centre[1] - outer + width / 2), width * 0.3, canvas.theme.on_fill)
        drawn += part(f"ring{index}", ring)
    return drawn


def _solve_lock(facts: Facts) -> list[Answer]:
    """Every setting of the rings at which all dots stand at the mark."""
    mechanism, step, count = _lock_moves(facts), facts["step"], len(facts["starts"])
    settings: Any = product(range(0, 360, step), repeat=count)
    return [
        list(values)
        for values in settings
        if all(apart(mechanism.angle(f"ring{index}", values), facts["mark"]) < 1 for index in range(count))
    ]


_type = partial(moving_type, FAMILY, _load, aspect=ASPECT)

TYPES = (
    _type(
        "upright_by_slider",
        _draw_slider_upright,
        _slider_upright_moves,
        only(_slider_upright_moves, _tilt),
        _paint_upright,
        ("Turn the picture upright with the slider", "Drag the slider until the picture stands straight"),
        ("用滑块将图片转正", "请拖动滑块直到图片摆正"),
    ),
    _type(
        "upright_by_steps",
        _draw_steps_upright,
        _steps_upright_moves,
        only(_steps_upright_moves, _tilt),
        _paint_upright,
        (
            "Turn the picture upright with the buttons and confirm",
            "Press the arrows until it stands straight, then confirm",
        ),
        ("用按钮将图片转正并确认", "请点按箭头把图片摆正后确认"),
    ),
    _type(
        "upright_by_hand",
        _draw_hand_upright,
        _hand_moves,
        only(_hand_moves, _tilt),
        _paint_upright,
        (
            "Drag the picture around its middle until it is upright",
            "Turn the disc by hand so that the picture stands straight",
        ),
        ("拖动图片绕中心旋转，将它转正", "请用手转动圆盘把图片摆正"),
    ),
    _type(
        "disc_in_scene",
        _draw_disc,
        _slider_upright_moves,
        only(_slider_upright_moves, _tilt),
        _paint_disc,
        ("Turn the disc until it fits the picture around it", "Slide until the middle agrees with its surroundings"),
        ("旋转圆盘，使它与周围的图片吻合", "请滑动到中间与四周衔接"),
    ),
    _type(
        "opposite_rings",
        _draw_rings,
        _rings_moves,
        only(_rings_moves, _twist),
        _paint_rings,
        ("The disc and the ring turn opposite ways: line them up", "Slide until the inner and the outer part agree"),
        ("内外两圈反向转动：将它们对齐", "请滑动到内圈与外圈吻合"),
    ),
    _type(
        "matching_angle",
        _draw_reference,
        _hand_moves,
        only(_hand_moves, lambda mechanism, facts, values: apart(mechanism.angle("turned", values), facts["given"])),
        _paint_reference,
        ("Turn the large picture as the small one is turned", "Drag the big picture to the angle of the small one"),
        ("将大图转到与小图相同的角度", "请拖动大图，使它的倾斜与小图一致"),
    ),
    _type(
        "dial_to_number",
        _draw_dial,
        _hand_moves,
        only(_hand_moves, _off_label),
        _paint_dial,
        ("Turn the knob to {label}", "Set the dial to the number {label}"),
        ("将旋钮转到 {label}", "请把刻度盘调到数字 {label}"),
    ),
    _type(
        "arrow_to_icon",
        _draw_arrow,
        _arrow_moves,
        only(_arrow_moves, _off_icon),
        _paint_arrow,
        ("Let the arrow point at this: {icon}", "Slide until the arrow shows this: {icon}"),
        ("使箭头指向{icon}", "请滑动到箭头对准{icon}"),
    ),
    _type(
        "compass_course",
        _draw_compass,
        _hand_moves,
        only(_hand_moves, _off_course),
        _paint_compass,
        ("Turn the red end of the needle to the {direction}", "By this compass, point the red end {direction}"),
        ("将指针红色一端转向{direction}方", "请按此罗盘把红端指向{direction}"),
    ),
    _type(
        "meshed_gears",
        _draw_gears,
        _gears_moves,
        only(_gears_moves, _off_pointer),
        _paint_gears,
        (
            "Turn the left wheel until the star is at the black pointer",
            "Drive the right wheel by the left: star to pointer",
        ),
        ("转动左轮，使右轮的星转到指针处", "请用左轮带动右轮，让星对准指针"),
    ),
    _type(
        "clock_setting",
        _draw_clock,
        _clock_moves,
        _solve_clock,
        _paint_clock,
        ("Set the clock to {time} and confirm", "Turn both hands to {time}, then confirm"),
        ("将时钟拨到 {time} 并确认", "请把两根指针拨到 {time} 后确认"),
        aspect=CLOCK_ASPECT,
    ),
    _type(
        "lock_rings",
        _draw_lock,
        _lock_moves,
        _solve_lock,
        _paint_lock,
        (
            "Turn all rings until their dots are at the mark and confirm",
            "Bring every ring's dot to the mark, then confirm",
        ),
        ("转动各圈，使圆点都对准标记并确认", "请让每一圈的圆点都到标记处后确认"),
    ),
)
