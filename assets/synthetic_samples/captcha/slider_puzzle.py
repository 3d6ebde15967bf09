"""Slider puzzle: a slider below the picture moves, sharpens, grows or colours a part of it until it is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.figures import (
    OUTLINES,
    SHAPES,
    UPRIGHT,
    landscape,
    letters,
    part,
    picture,
    shape,
    window,
)
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family
from assets.synthetic_samples.captcha.mechanisms import (
    ROW,
    Mechanism,
    Motion,
    Point,
    Values,
    moving_type,
    only,
    path_length,
    search,
    slider,
    sliding,
    travel,
)

FAMILY: Family = "slider puzzle"

ASPECT = 0.5

SIZE = 44.0
"""Width and height of a piece and its gap, in pixels."""

EDGE = 28.0
"""How far from the sides of the picture the middle of a piece stays."""


def _pace(width: float) -> float:
    """Pixels by which a piece moves across while the slider moves by one."""
    return (width - 2 * EDGE) / travel(width)


def _tolerance(draft: Draft) -> float:
    """Of a slider, in pixels of its way."""
    return draft.grade(10, 6)


def _shares(draft: Draft, count: int, apart: float, low: float = 0.22, high: float = 1.0) -> list[float]:
    """Places on a way from 0 to 1, in random order, none nearer to another than `apart`."""
    slack = max(0.0, (high - low) - apart * (count - 1))
    cuts = sorted(draft.rng.uniform(0, slack) for _ in range(count))
    places = [low + cut + apart * index for index, cut in enumerate(cuts)]
    draft.rng.shuffle(places)
    return places


def _stops(draft: Draft, count: int, apart: float = SIZE + 10) -> list[int]:
    """Where the slider stands when a piece lies in one of so many gaps."""
    way = travel(draft.width)
    return [round(share * way) for share in _shares(draft, count, apart / (_pace(draft.width) * way))]


def _row(draft: Draft, low: float = 0.0, high: float = 1.0) -> float:
    """A height in a part of the picture at which a piece fits."""
    return round(draft.rng.uniform(draft.height * low + SIZE / 2 + 3, draft.height * high - SIZE / 2 - 3), 1)


def _load(facts: Facts) -> float:
    """Finer, and among more that is not meant, is harder."""
    return 60 / min(facts["tolerances"]) + 2 * sum(len(facts.get(name, ())) for name in ("gaps", "items"))


# --- pieces and gaps -------------------------------------------------------------------------------------------------


def _gaps_moves(facts: Facts) -> Mechanism:
    """Pieces that one slider moves along their ways."""
    way = travel(facts["size"][0])
    motions = [
        Motion("along", f"piece{index}", 0, factor=path_length(piece["path"]) / way, power=facts.get("power", 1),
               length=way, path=tuple(map(tuple, piece["path"])))
        for index, piece in enumerate(facts["pieces"])
    ]  # fmt: skip
    return sliding(facts["size"], motions, confirm="power" in facts)


def _misfit(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """How far the piece that lies worst is from the nearest gap of its outline."""
    worst = 0.0
    for index, piece in enumerate(facts["pieces"]):
        at = mechanism.place(f"piece{index}", values)
        gaps = [gap for gap in facts["gaps"] if gap["outline"] == piece["outline"]]
        worst = max([worst, min(math.dist(at, (gap["x"], gap["y"])) for gap in gaps)])
    return worst


def _paint_gaps(canvas: Canvas, facts: Facts) -> str:
    """A landscape with its gaps, and pieces that show what is missing in theirs."""
    scene = landscape(canvas, (0, 0, canvas.width, canvas.height))
    drawn = scene + "".join(_gap(gap) for gap in facts["gaps"])
    for index, piece in enumerate(facts["pieces"]):
        home = facts["gaps"][piece["home"]]
        mark = f"clip{canvas.rng.getrandbits(40):x}"
        place = f"scale({SIZE / 32}) translate(-16 -16)"
        cut = (
            f'<clipPath id="{mark}"><path d="{OUTLINES[piece["outline"]]}" transform="{place}"/></clipPath>'
            f'<g clip-path="url(#{mark})"><g transform="translate({-home["x"]:.2f} {-home["y"]:.2f})">{scene}</g></g>'
        )
        rim = shape(piece["outline"], 0, 0, SIZE, "none", more='stroke="#ffffff" stroke-width="2"')
        drawn += part(f"piece{index}", cut + rim)
    return drawn


def _gap(gap: dict[str, Any]) -> str:
    more = 'fill-opacity="0.72" stroke="#ffffff" stroke-width="1.5"'
    return shape(gap["outline"], gap["x"], gap["y"], SIZE, "#0b0c0f", more=more)


def _straight(draft: Draft, outlines: Sequence[str], stops: Sequence[int], power: float = 1) -> tuple[Facts, Answer]:
    """Gaps in one row; the piece fits the first."""
    y, tolerance, way = _row(draft), _tolerance(draft), travel(draft.width)
    reach = draft.width - 2 * EDGE
    gaps = [
        {"outline": outline, "x": round(EDGE + reach * (stop / way) ** power, 2), "y": y}
        for outline, stop in zip(outlines, stops, strict=True)
    ]
    piece = {"outline": outlines[0], "home": 0, "path": [[EDGE, y], [draft.width - EDGE, y]]}
    # Where an uneven slider is quick, a piece may be further off.
    pace = power * (stops[0] / way) ** (power - 1) * reach / way
    facts: Facts = {"gaps": gaps, "pieces": [piece], "near": round(tolerance * pace, 2), "tolerances": [tolerance]}
    return ({**facts, "power": power} if power != 1 else facts), [stops[0]]


def _draw_one_gap(draft: Draft) -> tuple[Facts, Answer]:
    return _straight(draft, draft.rng.sample(SHAPES[draft.split], 1), _stops(draft, 1))


def _draw_matching_shape(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(2, 4)
    return _straight(draft, draft.rng.sample(SHAPES[draft.split], count), _stops(draft, count, SIZE + 6))


def _draw_uneven(draft: Draft) -> tuple[Facts, Answer]:
    power = draft.rng.choice((round(draft.grade(0.85, 0.65), 2), round(draft.grade(1.3, 2.0), 2)))
    stop = round(travel(draft.width) * draft.rng.uniform(0.35, 0.85))
    return _straight(draft, draft.rng.sample(SHAPES[draft.split], 1), [stop], power)


def _draw_matching_content(draft: Draft) -> tuple[Facts, Answer]:
    rng, tolerance, y, way = draft.rng, _tolerance(draft), _row(draft), travel(draft.width)
    count = draft.number(2, 3)
    fills = rng.sample(range(6), count + 1)
    start = 2 * EDGE + 8
    borders = [0.0, *(start + (draft.width - start) * index / count for index in range(count)), float(draft.width)]
    bands = [{"x0": low, "x1": high, "fill": fill} for (low, high), fill in zip(pairwise(borders), fills, strict=True)]
    outline = rng.choice(SHAPES[draft.split])
    # The middle of each gap lies on a whole place of the slider.
    pace = _pace(draft.width)
    stops = [
        round((rng.uniform(band["x0"] + SIZE / 2, min(band["x1"] - SIZE / 2, draft.width - EDGE)) - EDGE) / pace)
        for band in bands[1:]
    ]
    gaps = [{"outline": outline, "x": round(EDGE + pace * stop, 2), "y": y} for stop in stops]
    home = rng.randrange(count)
    piece = {"outline": outline, "home": home, "fill": bands[1 + home]["fill"],
             "path": [[EDGE, y], [draft.width - EDGE, y]]}  # fmt: skip
    facts: Facts = {"bands": bands, "gaps": gaps, "pieces": [piece], "near": round(tolerance * pace, 2)}
    return {**facts, "tolerances": [tolerance], "travel": way}, [stops[home]]


def _paint_bands(canvas: Canvas, facts: Facts) -> str:
    drawn = ""
    for band in facts["bands"]:
        drawn += paint.rect((band["x0"], 0, band["x1"], canvas.height), canvas.fill(band["fill"]))
        for _ in range(2 * canvas.difficulty):
            spots = [
                (canvas.rng.uniform(band["x0"], band["x1"]), canvas.rng.uniform(0, canvas.height)) for _ in range(2)
            ]
            drawn += paint.line(spots[0], spots[1], "#ffffff66", 1.5)
    (piece,) = facts["pieces"]
    rim = 'stroke="#ffffff" stroke-width="2"'
    face = shape(piece["outline"], 0, 0, SIZE, canvas.fill(piece["fill"]), more=rim)
    return drawn + "".join(_gap(gap) for gap in facts["gaps"]) + part("piece0", face)


def _stranger(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """The misfit, where the surroundings have the colour of the piece."""
    x, _ = mechanism.place("piece0", values)
    around = [band["fill"] for band in facts["bands"] if band["x0"] <= x < band["x1"]]
    return _misfit(mechanism, facts, values) if around == [facts["pieces"][0]["fill"]] else math.inf


def _draw_slanted(draft: Draft) -> tuple[Facts, Answer]:
    rng, outline, tolerance = draft.rng, draft.rng.choice(SHAPES[draft.split]), _tolerance(draft)
    heights = [SIZE / 2 + 6, draft.height - SIZE / 2 - 6]
    rng.shuffle(heights)
    path: list[Point] = [(EDGE, heights[0]), (draft.width - EDGE, heights[1])]
    stops = _stops(draft, draft.number(2, 4), SIZE + 6)
    gaps = []
    for index, stop in enumerate(stops):
        share = stop / travel(draft.width)
        x, y = (low + share * (high - low) for low, high in zip(*path, strict=True))
        # All but the first lie off the way, on the side where there is room.
        off = 0.0 if index == 0 else rng.uniform(SIZE * 0.75, SIZE) * (1 if y < draft.height / 2 else -1)
        gaps.append({"outline": outline, "x": round(x, 2), "y": round(y + off, 2)})
    near = tolerance * path_length(path) / travel(draft.width)
    pieces = [{"outline": outline, "home": 0, "path": path}]
    return {"gaps": gaps, "pieces": pieces, "near": round(near, 2), "tolerances": [tolerance]}, [stops[0]]


def _draw_opposite(draft: Draft) -> tuple[Facts, Answer]:
    rng, tolerance, way = draft.rng, _tolerance(draft), travel(draft.width)
    upper, lower = rng.sample(SHAPES[draft.split], 2)
    heights = _row(draft, 0, 0.5), _row(draft, 0.5, 1)
    stop, decoy = rng.sample((rng.uniform(0.22, 0.42), rng.uniform(0.62, 0.95)), 2)
    stop, pace = round(stop * way), _pace(draft.width)
    there, back = round(EDGE + pace * stop, 2), round(draft.width - EDGE - pace * stop, 2)
    gaps = [{"outline": upper, "x": there, "y": heights[0]}, {"outline": lower, "x": back, "y": heights[1]}]
    if draft.difficulty > 2:
        # Here the upper piece fits as well, but not both.
        gaps.append({"outline": upper, "x": round(EDGE + pace * decoy * way, 2), "y": heights[0]})
    ends = (EDGE, draft.width - EDGE)
    pieces = [
        {"outline": upper, "home": 0, "path": [[ends[0], heights[0]], [ends[1], heights[0]]]},
        {"outline": lower, "home": 1, "path": [[ends[1], heights[1]], [ends[0], heights[1]]]},
    ]
    return {"gaps": gaps, "pieces": pieces, "near": round(tolerance * pace, 2), "tolerances": [tolerance]}, [stop]


def _draw_two_sliders(draft: Draft) -> tuple[Facts, Answer]:
    rng, tolerance, way = draft.rng, _tolerance(draft), travel(draft.width)
    outlines = rng.sample(SHAPES[draft.split], draft.number(1, 3))
    down = (draft.height - SIZE - 8) / way
    gaps, stops = [], []
    for outline, across in zip(outlines, _stops(draft, len(outlines), SIZE + 6), strict=True):
        stops.append([across, round(rng.uniform(0.25, 1) * way)])
        x, y = EDGE + _pace(draft.width) * across, SIZE / 2 + 4 + down * stops[-1][1]
        gaps.append({"outline": outline, "x": round(x, 2), "y": round(y, 2)})
    pieces = [{"outline": outlines[0], "home": 0}]
    # The piece goes down slower than across, so that the lower slider may be further off.
    return {"gaps": gaps, "pieces": pieces, "down": down, "tolerances": [tolerance, 1.5 * tolerance]}, stops[0]


def _two_sliders_moves(facts: Facts) -> Mechanism:
    size, down = facts["size"], facts["down"]
    controls = [slider(size, row, freedom=row) for row in range(2)]
    handles = [Motion("along", control.part, row, path=control.path) for row, (_, control) in enumerate(controls)]
    pace = _pace(size[0])
    piece = [
        Motion("move", "piece0", 0, factor=pace, offset=-EDGE / pace, vector=(1, 0)),
        Motion("move", "piece0", 1, factor=down, offset=-(SIZE / 2 + 4) / down, vector=(0, 1)),
    ]
    return Mechanism(
        (size[0], size[1]),
        tuple(freedom for freedom, _ in controls),
        tuple(control for _, control in controls),
        (*handles, *piece),
        confirm=True,
        strip=2 * ROW,
    )


def _solve_two_sliders(facts: Facts) -> list[Answer]:
    """For each gap of the piece's outline, where either slider must stand."""
    mechanism = _two_sliders_moves(facts)
    answers: list[Answer] = []
    for gap in facts["gaps"]:
        if gap["outline"] == facts["pieces"][0]["outline"]:
            found = [_axis(mechanism, axis, gap[name]) for axis, name in enumerate("xy")]
            answers += [[across, down] for across in found[0] for down in found[1]]
    return answers


def _axis(mechanism: Mechanism, axis: int, target: float) -> list[float]:
    return search(mechanism, lambda values: abs(mechanism.place("piece0", values)[axis] - target), 2, axis)


# --- pictures to be put right ----------------------------------------------------------------------------------------


def _draw_strips(draft: Draft, paces: Sequence[float], upright: bool) -> tuple[Facts, Answer]:
    """The picture in strips that the slider shifts, each at a pace of its own, until all of them meet."""
    target, tolerance = round(draft.rng.uniform(0.3, 0.92) * travel(draft.width)), _tolerance(draft)
    near = tolerance * max(abs(one - other) for one, other in pairwise(paces))
    facts: Facts = {
        "paces": [round(pace, 3) for pace in paces],
        "target": target,
        "upright": upright,
        "picture": draft.rng.choice(UPRIGHT[draft.split]),
        "at": [round(draft.width * draft.rng.uniform(0.35, 0.65)), round(draft.height / 2)],
    }
    return {**facts, "near": round(near, 2), "tolerances": [tolerance]}, [target]


def _strips_moves(facts: Facts) -> Mechanism:
    vector = (0, 1) if facts["upright"] else (1, 0)
    motions = [
        Motion("move", f"strip{index}", 0, factor=pace, offset=facts["target"], vector=vector)
        for index, pace in enumerate(facts["paces"])
    ]
    return sliding(facts["size"], motions)


def _paint_strips(canvas: Canvas, facts: Facts) -> str:
    paces = facts["paces"]
    width, height = canvas.width, canvas.height
    beyond = max(map(abs, paces)) * travel(width)
    across, down = (0, beyond) if facts["upright"] else (beyond, 0)
    scene = landscape(canvas, (-across, -down, width + across, height + down))
    fills = canvas.rng.sample(canvas.theme.fills, 3)
    x, y = facts["at"]
    scene += picture(facts["picture"], x, y, height / 110, fills)
    drawn = ""
    for index in range(len(paces)):
        low, high = index / len(paces), (index + 1) / len(paces)
        box = (width * low, 0, width * high, height) if facts["upright"] else (0, height * low, width, height * high)
        drawn += window(box, part(f"strip{index}", scene))
    return drawn


def _breach(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """The largest shift of one strip against the next."""
    places = [mechanism.place(f"strip{index}", values) for index in range(len(facts["paces"]))]
    return max(math.dist(one, other) for one, other in pairwise(places))


def _draw_halves(draft: Draft) -> tuple[Facts, Answer]:
    paces = [0.0, draft.rng.choice((-1, 1)) * draft.rng.uniform(0.5, 0.8)]
    draft.rng.shuffle(paces)
    return _draw_strips(draft, paces, upright=False)


def _draw_shifted(draft: Draft) -> tuple[Facts, Answer]:
    paces = [draft.rng.uniform(0.2, 0.45) * (-1) ** index for index in range(draft.number(4, 8))]
    return _draw_strips(draft, paces, upright=True)


def _draw_focus(draft: Draft) -> tuple[Facts, Answer]:
    tolerance, target = draft.grade(14, 8), round(draft.rng.uniform(0.25, 0.95) * travel(draft.width))
    facts = {"words": draft.words(2), "target": target, "pace": 0.08, "icons": draft.icons(3)}
    return {**facts, "near": 0.08 * tolerance, "tolerances": [tolerance]}, [target]


def _focus_moves(facts: Facts) -> Mechanism:
    motions = [Motion("blur", "blurred", 0, factor=facts["pace"], offset=facts["target"])]
    return sliding(facts["size"], motions, confirm=True)


def _paint_focus(canvas: Canvas, facts: Facts) -> str:
    width, height = canvas.width, canvas.height
    seen = landscape(canvas, (0, 0, width, height))
    for index, text in enumerate(facts["words"]):
        seen += letters(text, width / 2, height * (0.25 + 0.3 * index), 32, "#ffffff")
    for index, name in enumerate(facts["icons"]):
        seen += paint.icon(canvas, name, paint.square((width * index / 3, height * 0.68, width * (index + 1) / 3,
                                                       height), 36), "#16181d")  # fmt: skip
    return window((0, 0, width, height), part("blurred", seen))


HUES = 300.0
"""Degrees of hue that a slider goes through: less than all, so that each colour comes once."""


def _draw_colour(draft: Draft) -> tuple[Facts, Answer]:
    way, tolerance = travel(draft.width), draft.grade(14, 8)
    target, pace = round(draft.rng.uniform(0.25, 0.95) * way), HUES / way
    facts = {"outline": draft.rng.choice(SHAPES[draft.split]), "hue": round(pace * target, 2), "pace": pace}
    return {**facts, "near": round(pace * tolerance, 2), "tolerances": [tolerance]}, [target]


def _colour_moves(facts: Facts) -> Mechanism:
    return sliding(facts["size"], [Motion("hue", "coloured", 0, factor=facts["pace"])], confirm=True)


def _paint_colour(canvas: Canvas, facts: Facts) -> str:
    side, middle = canvas.height * 0.6, canvas.height / 2
    places = canvas.rng.sample((canvas.width * 0.28, canvas.width * 0.72), 2)
    given = shape(facts["outline"], places[0], middle, side, f"hsl({facts['hue']} 70% 50%)")
    own = shape(facts["outline"], places[1], middle, side, "inherit")
    return paint.ground(canvas, canvas.difficulty / 6) + given + part("coloured", own)


def _draw_size(draft: Draft) -> tuple[Facts, Answer]:
    way, tolerance, least = travel(draft.width), _tolerance(draft), 0.2
    target, pace, whole = round(draft.rng.uniform(0.25, 0.95) * way), 0.8 / way, draft.height * 0.94
    facts = {
        "outline": draft.rng.choice(SHAPES[draft.split]),
        "size_wanted": round(whole * (least + pace * target), 2),
        "whole": whole,
        "least": least,
        "pace": pace,
        "centre": [round(draft.width * draft.rng.uniform(0.3, 0.7)), draft.height / 2],
    }
    return {**facts, "near": round(whole * pace * tolerance, 2), "tolerances": [tolerance]}, [target]


def _size_moves(facts: Facts) -> Mechanism:
    pace = facts["pace"]
    motion = Motion("scale", "grown", 0, factor=pace, offset=-facts["least"] / pace, vector=tuple(facts["centre"]))
    return sliding(facts["size"], [motion], confirm=True)


def _paint_size(canvas: Canvas, facts: Facts) -> str:
    outline, (x, y) = facts["outline"], facts["centre"]
    grown = part("grown", shape(outline, x, y, facts["whole"], canvas.rng.choice(canvas.theme.fills)))
    dashed = f'stroke="{canvas.theme.ink}" stroke-dasharray="2 1.5" vector-effect="non-scaling-stroke"'
    rim = shape(outline, x, y, facts["size_wanted"], "none", more=f'{dashed} stroke-width="2.5"')
    return paint.ground(canvas, canvas.difficulty / 6) + grown + rim


def _draw_amount(draft: Draft) -> tuple[Facts, Answer]:
    most, way = draft.number(5, 9), travel(draft.width)
    apart = draft.grade(28, 22)
    stops = sorted(round(share * way) for share in _shares(draft, most, apart / way, 0.1, 0.98))
    wanted = draft.rng.randint(2, most - 1)
    low, high = stops[wanted - 1], stops[wanted]
    cells = draft.rng.sample(range(18), most)
    (icon,) = draft.icons(1)
    facts = {"stops": stops, "wanted": wanted, "icon": icon, "cells": cells, "near": 0}
    terms = {"count": str(wanted), "icon": draft.icon_name(icon)}
    # Of the whole places of the slider from `low` up to `high`, which shows one more.
    return {**facts, "terms": terms, "tolerances": [(high - low) / 2]}, [(low + high - 1) // 2]


def _amount_moves(facts: Facts) -> Mechanism:
    motion = Motion("count", "counted", 0, stops=tuple(facts["stops"]))
    return sliding(facts["size"], [motion], confirm=True)


def _stop_between(facts: Facts, answer: Answer) -> Mechanism:
    """Anywhere between the two stops is right."""
    low = max(stop for stop in facts["stops"] if stop <= answer[0])
    high = min(stop for stop in facts["stops"] if stop > answer[0])
    # At `high` itself there is one more.
    return _amount_moves(facts).aimed([(low + high) / 2], [(high - low) / 2 - 0.01])


def _miscount(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    shown = sum(stop <= mechanism.amount("counted", values) for stop in facts["stops"])
    return abs(shown - facts["wanted"])


def _paint_amount(canvas: Canvas, facts: Facts) -> str:
    width, height = canvas.width / 6, canvas.height / 3
    fill = canvas.rng.choice(canvas.theme.fills)
    icons = ""
    for cell in facts["cells"]:
        column, row = cell % 6, cell // 6
        box = (column * width, row * height, (column + 1) * width, (row + 1) * height)
        icon = paint.icon(canvas, facts["icon"], paint.square(box, 34), fill)
        icons += f'<g style="display:none">{icon}</g>'
    return paint.ground(canvas, canvas.difficulty / 6) + part("counted", icons)


def _draw_film(draft: Draft) -> tuple[Facts, Answer]:
    names, way, tolerance = draft.icons(draft.number(5, 8)), travel(draft.width), _tolerance(draft)
    index = draft.rng.randrange(1, len(names))
    # The pictures follow each other where the slider stands at whole places.
    items = [{"icon": name, "stop": round(way * place / (len(names) - 1))} for place, name in enumerate(names)]
    pace = 72 * (len(names) - 1) / way
    facts = {"items": items, "wanted": names[index], "pace": pace, "near": round(tolerance * pace, 2)}
    terms = {"icon": draft.icon_name(names[index])}
    return {**facts, "terms": terms, "tolerances": [tolerance]}, [items[index]["stop"]]


def _film_moves(facts: Facts) -> Mechanism:
    (width, height), pace = facts["size"], facts["pace"]
    motions = [
        Motion("move", "film", 0, factor=-pace, offset=width / 2 / pace, vector=(1, 0)),
        Motion("along", "film", 0, factor=0, path=((0, height / 2), (1, height / 2))),
    ]
    return sliding(facts["size"], motions)


def _paint_film(canvas: Canvas, facts: Facts) -> str:
    film = ""
    for item in facts["items"]:
        x = item["stop"] * facts["pace"]
        film += paint.card(canvas, (x - 33, -33, x + 33, 33))
        film += paint.icon(canvas, item["icon"], (x - 22, -22, x + 22, 22), canvas.rng.choice(canvas.theme.fills))
    frame = paint.square((0, 0, canvas.width, canvas.height), 74)
    rim = f'<g stroke-width="5">{paint.rect(frame, "none", canvas.theme.ink, 6)}</g>'
    return paint.ground(canvas, canvas.difficulty / 6) + part("film", film) + rim


def _off_frame(mechanism: Mechanism, facts: Facts, values: Values) -> float:
    """How far the wanted picture is from the middle of the frame."""
    (item,) = (item for item in facts["items"] if item["icon"] == facts["wanted"])
    x, _ = mechanism.place("film", values, (item["stop"] * facts["pace"], 0))
    return abs(x - facts["size"][0] / 2)


_type = partial(moving_type, FAMILY, _load, aspect=ASPECT)

TYPES = (
    _type(
        "one_gap",
        _draw_one_gap,
        _gaps_moves,
        only(_gaps_moves, _misfit),
        _paint_gaps,
        ("Drag the slider until the piece fills the gap", "Move the missing piece into its place with the slider"),
        ("拖动滑块，使拼图块填满缺口", "请用滑块把缺少的一块移到位"),
    ),
    _type(
        "matching_shape",
        _draw_matching_shape,
        _gaps_moves,
        only(_gaps_moves, _misfit),
        _paint_gaps,
        ("Drag the slider until the piece lies in the gap of its shape", "Slide the piece to the gap that it fits"),
        ("拖动滑块，使拼图块落入形状相同的缺口", "请把拼图块滑到与它形状一致的缺口"),
    ),
    _type(
        "matching_content",
        _draw_matching_content,
        _gaps_moves,
        only(_gaps_moves, _stranger),
        _paint_bands,
        ("Slide the piece into the gap whose surroundings have its colour", "Slide it to where its colour goes on"),
        ("拖动滑块，使拼图块落入周围颜色与它相同的缺口", "请把拼图块滑到颜色能衔接的缺口"),
    ),
    _type(
        "slanted_way",
        _draw_slanted,
        _gaps_moves,
        only(_gaps_moves, _misfit),
        _paint_gaps,
        ("The piece moves aslant: drag the slider until it fills a gap", "Bring the slanting piece into a gap"),
        ("拼图块沿斜线移动：拖动滑块，使它填满缺口", "请把斜着移动的拼图块送入缺口"),
    ),
    _type(
        "uneven_slider",
        _draw_uneven,
        _gaps_moves,
        only(_gaps_moves, _misfit),
        _paint_gaps,
        (
            "The slider is uneven: bring the piece into the gap and confirm",
            "The piece moves at changing speed: fill the gap, then confirm",
        ),
        ("滑块的速度不均匀：将拼图块移入缺口并确认", "拼图块时快时慢：请填满缺口后确认"),
    ),
    _type(
        "opposite_pieces",
        _draw_opposite,
        _gaps_moves,
        only(_gaps_moves, _misfit),
        _paint_gaps,
        ("Drag the slider until both pieces lie in their gaps", "Find the place where both pieces fit at once"),
        ("拖动滑块，使两个拼图块同时落入各自的缺口", "请找到两块同时吻合的位置"),
    ),
    _type(
        "two_sliders",
        _draw_two_sliders,
        _two_sliders_moves,
        _solve_two_sliders,
        _paint_gaps,
        (
            "Bring the piece into the gap of its shape with both sliders and confirm",
            "One slider moves the piece across, one down: fill its gap, then confirm",
        ),
        ("用两个滑块将拼图块移入形状相同的缺口并确认", "一个滑块管左右，一个管上下：请填满对应缺口后确认"),
    ),
    _type(
        "two_halves",
        _draw_halves,
        _strips_moves,
        only(_strips_moves, _breach),
        _paint_strips,
        ("Drag the slider until both halves meet", "Put the upper and the lower half together"),
        ("拖动滑块，使上下两半对齐", "请把图片的上半和下半拼合"),
    ),
    _type(
        "shifted_strips",
        _draw_shifted,
        _strips_moves,
        only(_strips_moves, _breach),
        _paint_strips,
        ("Drag the slider until the picture is whole", "Slide until all strips of the picture are level"),
        ("拖动滑块，使图片复原", "请滑动到所有竖条都对齐"),
    ),
    _type(
        "focus",
        _draw_focus,
        _focus_moves,
        only(_focus_moves, lambda mechanism, facts, values: abs(mechanism.amount("blurred", values))),
        _paint_focus,
        ("Make the picture sharp with the slider and confirm", "Find where the picture is sharpest, then confirm"),
        ("用滑块将图片调到清晰并确认", "请找到最清晰的位置后确认"),
    ),
    _type(
        "matching_colour",
        _draw_colour,
        _colour_moves,
        only(_colour_moves, lambda moves, facts, values: abs(moves.amount("coloured", values) - facts["hue"])),
        _paint_colour,
        ("Give both shapes the same colour and confirm", "Slide until the two colours agree, then confirm"),
        ("将两个图形调成相同的颜色并确认", "请滑动到两种颜色一致后确认"),
    ),
    _type(
        "matching_size",
        _draw_size,
        _size_moves,
        only(
            _size_moves,
            lambda moves, facts, values: abs(facts["whole"] * moves.amount("grown", values) - facts["size_wanted"]),
        ),
        _paint_size,
        ("Let the shape fill its outline exactly and confirm", "Grow the shape to the dashed outline, then confirm"),
        ("使图形正好填满虚线轮廓并确认", "请把图形放大到虚线处后确认"),
    ),
    _type(
        "shown_count",
        _draw_amount,
        _amount_moves,
        only(_amount_moves, _miscount),
        _paint_amount,
        (
            "Let the picture show this exactly {count} times: {icon}; then confirm",
            "Slide until there are {count} of these: {icon}; then confirm",
        ),
        ("使图中正好出现 {count} 个{icon}并确认", "请滑动到有 {count} 个{icon}时确认"),
        interaction=_stop_between,
    ),
    _type(
        "film_strip",
        _draw_film,
        _film_moves,
        only(_film_moves, _off_frame),
        _paint_film,
        ("Drag the slider until the frame shows this: {icon}", "Bring this into the frame: {icon}"),
        ("拖动滑块，使框内显示{icon}", "请把{icon}移到框内"),
    ),
)
