"""`hesper parse`, as a person and as a program use it."""

import json
import subprocess
import sys

ANSWER = "<think>Save</think>\n<action>Click(point=(500, 250))</action>"


def parse(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dagster_project.cli", "parse", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)


def test_an_answer_is_printed_as_json() -> None:
    done = parse("--platform", "mobile", "--size", "360x720", ANSWER)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "think": "Save",
        "actions": [{"name": "Click", "point": [500, 250], "pixels": [[180.2, 180.4]]}],
    }


def test_lines_are_answers_and_errors_show_their_place() -> None:
    lines = "\n".join([json.dumps(ANSWER), "", "Click(point=(180, 180)", "Drag(0,0,360,720)", "Click(point=(-1,-1))"])
    done = parse("--size", "360x720", "--coordinates", "pixel", lines=lines)
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert "answer 1: pixel coordinates go from 0 to 360 across, not 500 (line 2, column 21)" in first
    assert rest[:2] == [ANSWER.split("\n")[1], " " * 20 + "^"]
    assert rest[2:] == [
        "answer 2: expected ',' or ')', found the end of the text (line 1, column 23)",
        "Click(point=(180, 180)",
        " " * 22 + "^",
    ]
    drag, refusal = (json.loads(line)["actions"][0] for line in done.stdout.splitlines())
    assert drag == {"name": "Drag", "point": [0, 0], "end": [999, 999], "pixels": [[0.2, 0.4], [359.8, 719.6]]}
    assert refusal == {"name": "Click", "point": [-1, -1], "pixels": [None]}


def test_nothing_is_evaluated() -> None:
    done = parse("Type(content=__import__('os').getcwd())")
    assert (done.returncode, done.stdout) == (1, "")
    assert "expected ',' or ')'" in done.stderr


def test_half_a_surrogate_pair_is_written_as_json_writes_it_and_the_rest_is_read() -> None:
    done = parse(lines="\"Type(content='\\ud800')\"\nClick(point=(1, 2))\n")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["actions"][0]["content"] == "\ud800"
    assert second["actions"][0]["point"] == [1, 2]


def test_options_that_do_not_fit_are_named() -> None:
    for arguments, message in (
        (("--coordinates", "pixel", "Wait()"), "needs --size"),
        (("--size", "12", "Wait()"), "WIDTHxHEIGHT"),
        (("--platform", "watch", "Wait()"), "no platform 'watch'; known: mobile, web, desktop"),
        (("--coordinates", "100", "Wait()"), "no coordinates '100'; known: 999, 1000, unit, pixel"),
    ):
        done = parse(*arguments)
        assert done.returncode not in (0, 1), done.stderr
        assert message in done.stderr
