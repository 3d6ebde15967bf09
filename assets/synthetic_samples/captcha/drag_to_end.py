"""Drag to end: things are dragged, on a rail or freely, to the end that a rule gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.figures import HANDLE, SHAPES, flag, groove, handle, letters, part, shape
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family, NoRoom
from assets.synthetic_samples.captcha.mechanisms import (
    Control,
    Freedom,
    Mechanism,
    Motion,
    Point,
    Values,
    crosses,
    moving_type,
    only,
    path_length,
    point_along,
    sliding,
    travel,
)
from assets.synthetic_samples.templates import COLOURS

FAMILY: Family = "drag to end"

ASPECT = 0.56

MARGIN = 26.0
"""Pixels that the middle of a handle stays off the sides of the picture."""


def _tolerance(draft: Draft) -> float:
    return draft.grade(12, 7)


def _load(facts: Facts) -> float:
    """Finer, longer, and among more that is not meant, is harder."""
    things = (facts.get(name, ()) for name in ("items", "slots", "walls", "path", "cables"))
    scale = 30 / len(facts["marks"]) if "marks" in facts else 0
    return 60 / min(facts["tolerances"]) + 2 * sum(min(len(thing), 8) for thing in things) + scale


# --- on a rail -------------------------------------------------------------------------------------------------------


def _rail_moves(facts: Facts) -> Mechanism:
    """A handle on a rail across the picture."""
    path = tuple((x, y) for x, y in facts["path"])
    length = facts.get("length", path_length(path))
    control = Control("guided" if facts.get("bends") else "rail", "slider", (0,), path)
    motion = Motion("along", "slider", 0, path=path)
    size = (facts["size"][0], facts["size"][1])
    # Around bends and corners it takes several drags.
    return Mechanism(size, (Freedom(0, 0, length),), (control,), (motion,), confirm=control.kind == "guided")


def _off_end(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """How far the handle is from the mark of the end."""
    return math.dist(mechanism.place("slider", values), facts["end"])


def _to_end(draft: Draft, path: Sequence[Point], **more: Any) -> tuple[Facts, Answer]:
    """The end is a whole number of pixels along the path, at most one before its last point."""
    path = [(round(x, 2), round(y, 2)) for x, y in path]
    length, tolerance = math.floor(path_length(path)), _tolerance(draft)
    end = point_along(path, length)
    facts = {"path": path, "end": end, "length": length, "near": tolerance, "tolerances": [tolerance]}
    return {**facts, **more}, [length]


def _draw_straight(draft: Draft) -> tuple[Facts, Answer]:
    """Level or upright where it is easy, aslant where it is hard; to either side."""
    rng, width, height = draft.rng, draft.width, draft.height
    low, high = MARGIN + rng.uniform(0, 20), width - MARGIN - rng.uniform(0, 20)
    lean = draft.grade(0, height / 2 - MARGIN) * rng.choice((-1, 1))
    path = [(low, height / 2 - lean), (high, height / 2 + lean)]
    if draft.difficulty < 4 and rng.random() < 0.3:
        x = rng.uniform(MARGIN, width - MARGIN)
        path = [(x, MARGIN), (x, height - MARGIN)]
    return _to_end(draft, path[:: rng.choice((1, -1))])


def _draw_curve(draft: Draft) -> tuple[Facts, Answer]:
    """A wave of one bend or more, which one straight drag doesn't follow."""
    rng, width, height = draft.rng, draft.width, draft.height
    bends, swing = draft.grade(0.5, 1.5), (height / 2 - MARGIN) * rng.choice((-1, 1))
    steps = [index / 60 for index in range(61)]
    reach = width - 2 * MARGIN
    path = [(MARGIN + reach * step, height / 2 + swing * math.sin(2 * math.pi * bends * step)) for step in steps]
    return _to_end(draft, path[:: rng.choice((1, -1))], bends=True)


def _draw_corners(draft: Draft) -> tuple[Facts, Answer]:
    """Legs across and down in turn; the handle can't cut a corner."""
    rng, width, height = draft.rng, draft.width, draft.height
    legs = draft.number(2, 4)
    columns = [MARGIN, width - MARGIN] if legs < 4 else [MARGIN, width / 2 + rng.uniform(-20, 20), width - MARGIN]
    rows = [MARGIN, height - MARGIN]
    if rng.random() < 0.5:
        rows.reverse()
    path: list[Point] = [(columns[0], rows[0])]
    if legs == 2:
        path += [(columns[1], rows[0]), (columns[1], rows[1])]
    elif legs == 3:
        path += [(columns[1], rows[0]), (columns[1], rows[1]), (columns[0] + rng.uniform(0, 90), rows[1])]
    else:
        path += [(columns[1], rows[0]), (columns[1], rows[1]), (columns[2], rows[1]), (columns[2], rows[0])]
    if rng.random() < 0.5:
        path = [(width - x, y) for x, y in path]
    return _to_end(draft, path, bends=True)


def _paint_rail(canvas: Canvas, facts: Facts) -> str:
    x, y = facts["end"]
    drawn = paint.ground(canvas, canvas.difficulty / 5) + groove(facts["path"])
    half = HANDLE / 2
    box = (x - half, y - half, x + half, y + half)
    drawn += f'<g stroke-dasharray="4 3" stroke-width="2.5">{paint.rect(box, "none", canvas.theme.ink, 7)}</g>'
    drawn += flag(x, y, 20, canvas.theme.ink)
    return drawn + handle("slider", canvas.locale)


def _draw_stops(draft: Draft) -> tuple[Facts, Answer]:
    """A straight rail with stops, each with an icon beside it."""
    names = draft.icons(draft.number(3, 5))
    length, tolerance = math.floor(draft.width - 2 * MARGIN), _tolerance(draft)
    y = round(draft.height * 0.66)
    first, gap = 46, (length - 46) / len(names)
    stops = [round(first + gap * (index + 0.5) + draft.rng.uniform(-0.12, 0.12) * gap) for index in range(len(names))]
    items = [{"icon": name, "x": MARGIN + stop} for name, stop in zip(names, stops, strict=True)]
    wanted = draft.rng.randrange(len(names))
    facts = {"path": [(MARGIN, y), (MARGIN + length, y)], "items": items, "wanted": names[wanted]}
    terms = {"icon": draft.icon_name(names[wanted])}
    return {**facts, "terms": terms, "near": tolerance, "tolerances": [tolerance]}, [stops[wanted]]


def _paint_stops(canvas: Canvas, facts: Facts) -> str:
    drawn, y = paint.ground(canvas, canvas.difficulty / 5) + groove(facts["path"]), facts["path"][0][1]
    for item in facts["items"]:
        x = item["x"]
        drawn += paint.line((x, y - 24), (x, y + 24), canvas.theme.ink, 2)
        box = (x - 15, y - 60, x + 15, y - 30)
        drawn += paint.icon(canvas, item["icon"], box, canvas.rng.choice(canvas.theme.fills))
    return drawn + handle("slider", canvas.locale)


def _off_stop(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    (x,) = (item["x"] for item in facts["items"] if item["icon"] == facts["wanted"])
    return abs(mechanism.place("slider", values)[0] - x)


def _draw_level(draft: Draft) -> tuple[Facts, Answer]:
    """A vessel whose level follows a handle beside it; a scale says how full it is."""
    length, tolerance = 100, 5
    percent = draft.rng.randrange(30, 96, 10 if draft.difficulty < 3 else 5)
    bottom = round(draft.height / 2 + length / 2)
    x = round(draft.width * draft.rng.choice((0.2, 0.8)))
    marks = list(range(0, 101, (10, 20, 25, 50, 100)[draft.difficulty - 1]))
    facts = {"path": [(x, bottom), (x, bottom - length)], "marks": marks, "bottom": bottom, "percent": percent}
    return {**facts, "terms": {"percent": str(percent)}, "near": tolerance, "tolerances": [6]}, [percent]


def _level_moves(facts: Facts) -> Mechanism:
    rail = _rail_moves(facts)
    return Mechanism(
        rail.picture, rail.freedoms, rail.inputs, (*rail.motions, Motion("move", "level", 0, vector=(0, -1)))
    )


def _paint_level(canvas: Canvas, facts: Facts) -> str:
    (_, bottom), (_, top) = facts["path"]
    left = canvas.width / 2 - 50
    drawn = paint.ground(canvas, canvas.difficulty / 6) + groove(facts["path"])
    box = f'x="{left}" y="{top - 4}" width="100" height="{bottom - top + 4}"'
    liquid = paint.rect((left, bottom, left + 100, bottom + 120), canvas.fill(1))
    drawn += paint.rect((left, top - 4, left + 100, bottom), canvas.theme.surface)
    view = f'viewBox="{left} {top - 4} 100 {bottom - top + 4}"'
    drawn += f"<svg {box} {view}>{part('level', liquid)}</svg>"
    drawn += (
        f'<path d="M{left} {top - 8}V{bottom}h100V{top - 8}" fill="none" stroke="{canvas.theme.ink}" stroke-width="3"/>'
    )
    for mark in facts["marks"]:
        drawn += paint.line((left + 100, bottom - mark), (left + 110, bottom - mark), canvas.theme.ink, 2)
        drawn += letters(f"{mark}", left + 126, bottom - mark, 11, canvas.theme.ink)
    return drawn + handle("slider", canvas.locale)


def _off_level(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """How far the liquid's surface is from the height that the scale gives for what is asked."""
    surface = mechanism.place("level", values, (0, facts["bottom"]))[1]
    return abs(surface - (facts["bottom"] - facts["percent"]))


def _draw_number(draft: Draft) -> tuple[Facts, Answer]:
    """A line of numbers that says only what its ends are."""
    rng, tolerance = draft.rng, _tolerance(draft)
    low = rng.choice((0, 10, 20, 50)) if draft.difficulty > 2 else 0
    count = rng.choice((10, 20) if draft.difficulty < 3 else (20, 40, 50))
    unit = math.floor((draft.width - 2 * MARGIN) / count)
    number = rng.randint(math.ceil(count * 0.25), count - 1)
    ticks = [tick for tick in range(0, count + 1) if tick % (count // (5, 5, 2, 2, 1)[draft.difficulty - 1]) == 0]
    y = round(draft.height * 0.6)
    facts = {
        "path": [(MARGIN, y), (MARGIN + unit * count, y)],
        "low": low,
        "high": low + count,
        "ticks": ticks,
        "number": low + number,
    }
    terms = {"number": str(low + number), "low": str(low), "high": str(low + count)}
    return {**facts, "terms": terms, "near": tolerance, "tolerances": [tolerance]}, [unit * number]


def _paint_number(canvas: Canvas, facts: Facts) -> str:
    (left, y), (right, _) = facts["path"]
    drawn = paint.ground(canvas, canvas.difficulty / 6) + groove(facts["path"])
    unit = (right - left) / (facts["high"] - facts["low"])
    for tick in facts["ticks"]:
        drawn += paint.line((left + unit * tick, y - 30), (left + unit * tick, y - 20), canvas.theme.ink, 2)
    for number, x in ((facts["low"], left), (facts["high"], right)):
        drawn += letters(str(number), x, y - 44, 16, canvas.theme.ink)
    return drawn + handle("slider", canvas.locale)


def _off_number(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    (left, _), (right, _) = facts["path"]
    share = (facts["number"] - facts["low"]) / (facts["high"] - facts["low"])
    return abs(mechanism.place("slider", values)[0] - (left + share * (right - left)))


def _draw_balance(draft: Draft) -> tuple[Facts, Answer]:
    """A beam with a weight on its left arm, and one whose place on the right arm the slider gives."""
    rng, arm = draft.rng, math.floor(draft.width / 2 - 34)
    weights = rng.sample(range(1, draft.number(4, 9)), 2)
    place = rng.randrange(30, arm, 10)
    if weights[0] * place % weights[1] or not 24 <= weights[0] * place / weights[1] <= arm:
        raise NoRoom
    own = weights[0] * place // weights[1]
    way = travel(draft.width)
    stop, tolerance = round(own / arm * way), draft.grade(12, 9)
    # The right weight lies where it keeps the balance when the slider stands at a whole place.
    facts = {"weights": weights, "place": round(stop * arm / way * weights[1] / weights[0], 3), "arm": arm}
    return {**facts, "near": tolerance * arm / way * weights[1], "tolerances": [tolerance]}, [stop]


def _balance_moves(facts: Facts) -> Mechanism:
    (width, height), (left, right) = facts["size"], facts["weights"]
    pace, pivot = facts["arm"] / travel(width), (width / 2, height * 0.4)
    # In the sum of the torques the left weight is a constant.
    offset = left * facts["place"] / (right * pace)
    tilt = Motion("turn", "beam", 0, factor=0.06 * right * pace, offset=offset, limit=12, vector=pivot)
    weight = Motion("move", "weight", 0, factor=pace, vector=(1, 0))
    # The weight lies on the beam: it tilts with it.
    lying = Motion("turn", "weight", 0, tilt.factor, tilt.offset, limit=12, vector=pivot)
    return sliding(facts["size"], [tilt, lying, weight], confirm=True)


def _paint_balance(canvas: Canvas, facts: Facts) -> str:
    x, y = canvas.width / 2, canvas.height * 0.4
    arm, (left, right) = facts["arm"], facts["weights"]
    beam = paint.line((x - arm, y), (x + arm, y), canvas.theme.ink, 5)
    for step in range(-5, 6):
        beam += paint.line((x + arm * step / 5, y - 5), (x + arm * step / 5, y + 5), canvas.theme.ink, 2)
    beam += _weight(canvas, x - facts["place"], y, left, canvas.fill(1))
    foot = paint.polygon([(x, y), (x - 22, canvas.height - 8), (x + 22, canvas.height - 8)], canvas.theme.line)
    own = part("weight", _weight(canvas, x, y, right, canvas.fill(0)))
    return paint.ground(canvas, canvas.difficulty / 6) + foot + part("beam", beam) + own


def _weight(canvas: Canvas, x: float, y: float, weight: int, fill: str) -> str:
    side = 22 + 2.5 * weight
    box = (x - side / 2, y + 4, x + side / 2, y + 4 + side)
    return paint.rect(box, fill, "none", 4) + letters(str(weight), *paint.centre(box), 15, canvas.theme.on_fill)


def _torque(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """How much the torques of the two weights differ."""
    left, right = facts["weights"]
    pace = facts["arm"] / travel(facts["size"][0])
    return abs(float(left * facts["place"] - right * pace * values[0]))


# --- freely ----------------------------------------------------------------------------------------------------------

PIECE = 40.0
"""Width and height of a thing that is dragged freely."""


def _free_moves(facts: Facts) -> Mechanism:
    """Things that are dragged anywhere on the picture."""
    width, height = facts["size"]
    freedoms, controls, motions = [], [], []
    for index, (x, y) in enumerate(facts["starts"]):
        freedoms += [Freedom(x, 0, width), Freedom(y, 0, height)]
        side = (facts.get("side", PIECE),) * 2
        controls.append(Control("free", f"piece{index}", (2 * index, 2 * index + 1), size=side))
        for axis, vector in enumerate(((1, 0), (0, 1))):
            motions.append(Motion("move", f"piece{index}", 2 * index + axis, vector=vector))
    walls = tuple((wall[0], wall[1], wall[2], wall[3]) for wall in facts.get("walls", ()))
    route = tuple((x, y) for x, y in facts.get("route", ()))
    confirm = len(facts["starts"]) > 1 or bool(walls)
    return Mechanism((width, height), tuple(freedoms), tuple(controls), tuple(motions), walls=walls, route=route,
                     confirm=confirm)  # fmt: skip


def _loose(name: str, fill: str) -> str:
    """A shape that can be taken hold of anywhere in its box, also where it is hollow."""
    half = PIECE / 2
    return paint.rect((-half, -half, half, half), "#00000000") + shape(name, 0, 0, PIECE, fill)


def _spot(box: Sequence[float]) -> list[float]:
    return [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]


def _draw_outline(draft: Draft) -> tuple[Facts, Answer]:
    names = draft.rng.sample(SHAPES[draft.split], draft.number(2, 5))
    start, *slots = draft.scatter([(PIECE, PIECE)] * (len(names) + 1), gap=10)
    facts = {
        "slots": [{"shape": name, "spot": _spot(slot)} for name, slot in zip(names, slots, strict=True)],
        "shape": names[0],
        "starts": [_spot(start)],
    }
    tolerance = draft.grade(12, 7)
    return {**facts, "tolerances": [tolerance, tolerance]}, _spot(slots[0])


def _paint_outline(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 5)
    dashed = f'stroke="{canvas.theme.ink}" stroke-width="2" stroke-dasharray="2.5 1.5"'
    for slot in facts["slots"]:
        x, y = slot["spot"]
        drawn += shape(slot["shape"], x, y, PIECE, canvas.theme.surface, more=dashed)
    return drawn + part("piece0", _loose(facts["shape"], canvas.rng.choice(canvas.theme.fills)))


def _solve_outline(facts: Facts) -> list[Answer]:
    return [slot["spot"] for slot in facts["slots"] if slot["shape"] == facts["shape"]]


def _draw_size_order(draft: Draft) -> tuple[Facts, Answer]:
    """Discs in a row that grow, with a slot before, between and behind them."""
    count = draft.number(2, 4)
    least, step = 12, draft.grade(6, 3.2)
    radii = [round(least + step * index, 1) for index in range(count + 1)]
    place = draft.rng.randrange(count + 1)
    own = radii.pop(place)
    pitch = draft.width / (2 * count + 1)
    y = round(draft.height * 0.3)
    slots = [[round(pitch * (2 * index + 0.5)), y] for index in range(count + 1)]
    items = [{"radius": radius, "x": round(pitch * (2 * index + 1.5))} for index, radius in enumerate(radii)]
    start = [round(draft.rng.uniform(0.2, 0.8) * draft.width), round(draft.height * 0.76)]
    facts = {"slots": slots, "items": items, "radius": own, "starts": [start], "y": y, "side": 2 * own}
    tolerance = min(draft.grade(12, 8), pitch / 2)
    return {**facts, "tolerances": [tolerance, tolerance]}, slots[place]


def _paint_size_order(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    fill = canvas.rng.choice(canvas.theme.fills)
    for x, y in facts["slots"]:
        ring = paint.disc((x, y), min(12, canvas.width / (4 * len(facts["slots"]))), "none", canvas.theme.ink, 2)
        drawn += f'<g stroke-dasharray="3 3">{ring}</g>'
    for item in facts["items"]:
        drawn += paint.disc((item["x"], facts["y"]), item["radius"], fill)
    return drawn + part("piece0", paint.disc((0, 0), facts["radius"], fill, canvas.theme.ink))


def _solve_size_order(facts: Facts) -> list[Answer]:
    """Each slot at which the row with the disc in it would grow from left to right."""
    row = [(item["x"], item["radius"]) for item in facts["items"]]
    answers: list[Answer] = []
    for slot in facts["slots"]:
        radii = [radius for _, radius in sorted([*row, (slot[0], facts["radius"])])]
        if all(one < other for one, other in pairwise(radii)):
            answers.append(slot)
    return answers


def _draw_wall(draft: Draft) -> tuple[Facts, Answer]:
    """A wall between start and end, with a way around or through it."""
    rng, width, height = draft.rng, draft.width, draft.height
    x, thick, opening = round(width * rng.uniform(0.42, 0.58)), 14, draft.grade(76, 54)
    gap = round(rng.choice((opening / 2 + 6, height - opening / 2 - 6)))
    low, high = gap - opening / 2, gap + opening / 2
    walls = [wall for wall in ((x - thick / 2, 0, x + thick / 2, low), (x - thick / 2, high, x + thick / 2, height))
             if wall[3] - wall[1] > 12]  # fmt: skip
    side = 34
    ends = [[round(rng.uniform(side, width * 0.22)), round(height - gap)],
            [round(rng.uniform(width * 0.78, width - side)), round(height - gap)]]  # fmt: skip
    if rng.random() < 0.5:
        ends.reverse()
    start, end = ends
    tolerance = draft.grade(12, 8)
    facts = {"walls": walls, "gap": [x, gap], "starts": [start], "end": end, "side": side, "route": [[x, gap]]}
    return {**facts, "tolerances": [tolerance, tolerance]}, end


def _paint_wall(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    for wall in facts["walls"]:
        drawn += paint.rect((wall[0], wall[1], wall[2], wall[3]), canvas.theme.ink, "none", 3)
    x, y = facts["end"]
    drawn += paint.disc((x, y), 20, "none", canvas.theme.ink, 3)
    drawn += flag(x, y, 20, canvas.theme.ink)
    return drawn + part("piece0", paint.disc((0, 0), facts["side"] / 2, canvas.rng.choice(canvas.theme.fills)))


def _solve_wall(facts: Facts) -> list[Answer]:
    """The end, when the straight way to it is blocked and two straight legs by the opening are free."""
    start, end, gap = tuple(facts["starts"][0]), tuple(facts["end"]), tuple(facts["gap"])
    walls = [(wall[0], wall[1], wall[2], wall[3]) for wall in facts["walls"]]
    direct = any(crosses((start, end), wall) for wall in walls)
    # A pointer that strays a little from its legs must not touch the wall.
    wide = [(wall[0] - 8, wall[1] - 8, wall[2] + 8, wall[3] + 8) for wall in walls]
    around = not any(crosses(leg, wall) for leg in ((start, gap), (gap, end)) for wall in wide)
    return [facts["end"]] if direct and around else []


def _draw_bins(draft: Draft) -> tuple[Facts, Answer]:
    """Things below, bins above; each thing belongs into the bin of its colour."""
    rng, width, height = draft.rng, draft.width, draft.height
    count, bins = draft.number(2, 4), draft.number(2, 3)
    fills = rng.sample(range(len(COLOURS)), bins)
    pitch = width / bins
    spots = {fill: [round(pitch * (index + 0.5)), round(height * 0.27)] for index, fill in enumerate(fills)}
    slots = [{"fill": fill, "spot": spot} for fill, spot in spots.items()]
    own = [rng.choice(fills) for _ in range(count)]
    items = [{"fill": fill, "shape": rng.choice(SHAPES[draft.split])} for fill in own]
    starts = [[round(width * (index + 0.5) / count), round(height * 0.78)] for index in range(count)]
    half = [min(pitch * 0.38, 50.0), height * 0.17]
    facts = {"slots": slots, "items": items, "starts": starts, "half": half, "tolerances": half * count}
    return facts, [coordinate for fill in own for coordinate in spots[fill]]


def _paint_bins(canvas: Canvas, facts: Facts) -> str:
    drawn, (across, down) = paint.ground(canvas, canvas.difficulty / 6), facts["half"]
    for slot in facts["slots"]:
        x, y = slot["spot"]
        box = (x - across, y - down, x + across, y + down)
        drawn += f'<g stroke-width="4">{paint.rect(box, canvas.theme.surface, canvas.fill(slot["fill"]), 8)}</g>'
    for index, item in enumerate(facts["items"]):
        drawn += part(f"piece{index}", _loose(item["shape"], canvas.fill(item["fill"])))
    return drawn


def _solve_bins(facts: Facts) -> list[Answer]:
    answers: list[Answer] = [[]]
    for item in facts["items"]:
        spots = [slot["spot"] for slot in facts["slots"] if slot["fill"] == item["fill"]]
        answers = [[*answer, *spot] for answer in answers for spot in spots]
    return answers


def _draw_cables(draft: Draft) -> tuple[Facts, Answer]:
    """Tangled cables; a plug belongs into the socket at the other end of its own."""
    rng, width, height, count = draft.rng, draft.width, draft.height, draft.number(2, 4)
    left = [[86, round(height * (index + 0.5) / count)] for index in range(count)]
    right = [[width - 30, round(height * (index + 0.5) / count)] for index in range(count)]
    order = rng.sample(range(count), count)
    if count > 1 and order == sorted(order):
        raise NoRoom
    cables = []
    for index, end in enumerate(order):
        (x0, y0), (x1, y1) = left[index], right[end]
        between = [
            [round(x0 + (x1 - x0) * share), round(y0 + (y1 - y0) * share + rng.uniform(-18, 18))]
            for share in (0.33, 0.66)
        ]
        cables.append([[x0, y0], *between, [x1, y1]])
    own = rng.randrange(count)
    facts = {"cables": cables, "slots": right, "home": left[own], "starts": [[28, left[own][1]]], "side": 34}
    tolerance = draft.grade(12, 9)
    return {**facts, "tolerances": [tolerance, tolerance]}, right[order[own]]


def _paint_cables(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 8)
    fills = canvas.rng.sample(canvas.theme.fills, len(facts["cables"]))
    for cable, fill in zip(facts["cables"], fills, strict=True):
        stroke = fill if canvas.difficulty < 3 else canvas.theme.ink
        drawn += paint.curve([(x, y) for x, y in cable], canvas.theme.page, 8)
        drawn += paint.curve([(x, y) for x, y in cable], stroke, 3.5)
        drawn += paint.disc((cable[0][0], cable[0][1]), 6, stroke)
    for x, y in facts["slots"]:
        drawn += paint.disc((x, y), 15, canvas.theme.surface, canvas.theme.ink, 3) + paint.disc(
            (x, y), 5, canvas.theme.ink
        )
    (x, y) = facts["home"]
    drawn += paint.disc((x, y), 11, "none", canvas.theme.ink, 2)
    plug = paint.rect((-17, -13, 10, 13), canvas.theme.ink, "none", 5)
    plug += paint.line((10, -6), (17, -6), canvas.theme.ink, 4) + paint.line((10, 6), (17, 6), canvas.theme.ink, 4)
    return drawn + part("piece0", plug)


def _solve_cables(facts: Facts) -> list[Answer]:
    """Follow every cable that begins at the plug's ring."""
    return [cable[-1] for cable in facts["cables"] if cable[0] == facts["home"] and cable[-1] in facts["slots"]]


_type = partial(moving_type, FAMILY, _load, aspect=ASPECT)

TYPES = (
    _type(
        "straight_rail",
        _draw_straight,
        _rail_moves,
        only(_rail_moves, _off_end),
        _paint_rail,
        ("Drag the slider to the end of the rail", "Take the handle all the way to the flag"),
        ("将滑块拖到轨道尽头", "请把手柄一直拖到旗子处"),
    ),
    _type(
        "curved_rail",
        _draw_curve,
        _rail_moves,
        only(_rail_moves, _off_end),
        _paint_rail,
        (
            "Drag the slider along the curve to its end, bend by bend, and confirm",
            "Follow the bends with the handle as far as the flag, then confirm",
        ),
        ("沿曲线逐弯将滑块拖到终点并确认", "请让手柄顺着弯道到达旗子后确认"),
    ),
    _type(
        "rail_with_corners",
        _draw_corners,
        _rail_moves,
        only(_rail_moves, _off_end),
        _paint_rail,
        (
            "Drag the slider around every corner to the end and confirm",
            "Leg by leg, bring the handle to the flag, then confirm",
        ),
        ("逐段绕过拐角，将滑块拖到终点并确认", "请一段一段地把手柄拖到旗子后确认"),
    ),
    _type(
        "rail_stops",
        _draw_stops,
        _rail_moves,
        only(_rail_moves, _off_stop),
        _paint_stops,
        ("Drag the slider to the stop with this: {icon}", "Halt the handle below this: {icon}"),
        ("将滑块拖到{icon}下方的停靠处", "请让手柄停在{icon}下面"),
    ),
    _type(
        "fill_level",
        _draw_level,
        _level_moves,
        only(_level_moves, _off_level),
        _paint_level,
        ("Fill the vessel to {percent} percent", "Raise the level to {percent} on the scale"),
        ("将容器装到 {percent}%", "请把液面升到刻度 {percent}"),
    ),
    _type(
        "number_line",
        _draw_number,
        _rail_moves,
        only(_rail_moves, _off_number),
        _paint_number,
        ("Drag the slider to where {number} is on the line", "Between {low} and {high}, put the handle at {number}"),
        ("将滑块拖到数轴上 {number} 的位置", "请在 {low} 到 {high} 之间把手柄放在 {number}"),
    ),
    _type(
        "balance_beam",
        _draw_balance,
        _balance_moves,
        only(_balance_moves, _torque),
        _paint_balance,
        ("Move the right weight until the beam is level and confirm", "Balance both weights, then confirm"),
        ("移动右侧砝码使横梁平衡并确认", "请让两边平衡后确认"),
    ),
    _type(
        "matching_outline",
        _draw_outline,
        _free_moves,
        _solve_outline,
        _paint_outline,
        ("Drag the shape into its outline", "Put the coloured shape where it fits"),
        ("将图形拖入对应的轮廓", "请把彩色图形放到吻合的位置"),
    ),
    _type(
        "size_order",
        _draw_size_order,
        _free_moves,
        _solve_size_order,
        _paint_size_order,
        ("Drag the disc to its place in the row by size", "Put the loose disc where the row keeps growing"),
        ("按大小顺序将圆盘拖到队列中的位置", "请把圆盘放到从小到大的正确空位"),
    ),
    _type(
        "around_the_wall",
        _draw_wall,
        _free_moves,
        _solve_wall,
        _paint_wall,
        (
            "Drag the disc to the flag without touching the wall and confirm",
            "Bring the disc through the opening to the flag, then confirm",
        ),
        ("将圆盘拖到旗子处并确认，不要碰到墙", "请让圆盘穿过开口到达旗子后确认"),
    ),
    _type(
        "colour_bins",
        _draw_bins,
        _free_moves,
        _solve_bins,
        _paint_bins,
        ("Drag every shape into the box of its colour and confirm", "Sort the shapes by colour, then confirm"),
        ("将每个图形拖入同色的框并确认", "请按颜色分好图形后确认"),
    ),
    _type(
        "tangled_cables",
        _draw_cables,
        _free_moves,
        _solve_cables,
        _paint_cables,
        ("Drag the plug to the socket that its cable leads to", "Follow the ringed cable and plug in at its end"),
        ("将插头拖到它的电缆通向的插座", "请沿画圈的电缆找到终点并插上插头"),
    ),
)
