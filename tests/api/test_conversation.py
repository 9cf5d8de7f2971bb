"""What a page shows after a reload is what happened, in order: messages, commands, their replies, open questions.

An approval moves nothing. The browser shows the same lines in tests/browser.
"""

import pytest

from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says, soon
from tests.support.live import code_of, serve

GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
WISH = calls('memory {"action": "read"}', text="Let me look.")


async def lines(live, **query):
    answer = await live.get("/v1/conversation", **{"chat": "browser", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def told(found):
    return [(one["sender"] or "", one["text"].split("\n")[0][:24]) for one in found["lines"]]


async def test_commands_questions_and_approvals_are_where_they_happened(tmp_path):
    model = ScriptedModel(says("hello to you"), WISH, says("here it is"), says("and again"))
    async with serve(tmp_path / "data", model=model, listed={"main": GUARDED}) as live:
        run = live.runtime
        await soon(run.ask("browser", "hello"))
        await soon(run.ask("browser", "/status"))
        feed = run.events()
        wished = await run.send("browser", "what do you know?")
        await happened(feed, "turn.asked")
        before = await lines(live)
        question = before["lines"][-1]
        assert told(before)[:5] == [
            *(("browser", "hello"), ("", "hello to you"), ("browser", "/status"), ("", "Nothing is running. 0 me")),
            ("browser", "what do you know?"),
        ]
        assert question["approval"] in question["text"]
        assert (question["sender"], question["message"]) == (None, wished)
        assert [one["question"] for one in before["lines"]] == [*[False] * 5, True]
        later = await run.send("browser", "and then?")
        await soon(run.ask("browser", f"/approve {question['approval']}"))
        assert await soon(run.reply_to(wished)) == "here it is"
        assert await soon(run.reply_to(later)) == "and again"
        after = await lines(live)
        assert after["lines"][:6] == [*before["lines"][:4], *moved_on(after["lines"][4:6])]
        assert [one["id"] for one in after["lines"][:6]] == [one["id"] for one in before["lines"]]
        assert told(after)[6:] == [
            *(
                ("browser", "and then?"),
                ("browser", f"/approve {question['approval']}"),
                ("", f"Approved: memory ({question['approval']}"[:24]),
            ),
            *(("", "here it is"), ("", "and again")),
        ]
        assert [one["approval"] for one in after["lines"]] == [None] * 11
        assert [n for n, one in enumerate(after["lines"]) if one["question"]] == [5]
        assert after["before"] is None


def moved_on(found):
    """The message is answered and its question is answered: they stay where they were."""
    assert [(one["state"], one["approval"]) for one in found] == [("answered", None), ("delivered", None)]
    return found


async def test_a_new_session_hides_nothing_and_what_was_undone_is_marked(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel(otherwise=says("yes"))) as live:
        for text in ("one", "two", "/undo", "/new", "three"):
            await soon(live.runtime.ask("browser", text))
        found = (await lines(live))["lines"]
        assert [one["text"] for one in found if one["sender"]] == ["one", "two", "/undo", "/new", "three"]
        assert len(found) == 10
        assert [one["text"] for one in found if one["undone"] and one["sender"]] == ["two"]
        assert [one["undone"] for one in found[:4]] == [False, False, True, True]


async def test_pages_go_back_to_the_beginning_and_miss_nothing(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel(otherwise=says("yes"))) as live:
        for n in range(5):
            await soon(live.runtime.ask("browser", f"{n}"))
        seen: list[str] = []
        before = 0
        for wanted in (["3", "4"], ["1", "2"], ["0"]):
            page = await lines(live, limit=2, **({"before": before} if before else {}))
            assert [one["text"] for one in page["lines"] if one["sender"]] == wanted
            seen, before = [*(one["id"] for one in page["lines"]), *seen], page["before"]
        assert before is None
        assert seen == [one["id"] for one in (await lines(live))["lines"]]
        assert (await lines(live, chat="elsewhere"))["lines"] == []


@pytest.mark.parametrize("query", [{}, {"chat": "browser", "limit": "many"}, {"chat": "browser", "agent": "no such"}])
async def test_a_wrong_question_is_told_what_is_wrong(tmp_path, query):
    async with serve(tmp_path / "data", model=ScriptedModel()) as live:
        answer = await live.get("/v1/conversation", **query)
        assert (answer.status_code, code_of(answer)) in {(400, "invalid_input"), (400, "invalid_name")}


async def test_a_page_without_lines_leads_nowhere(tmp_path):
    async with serve(tmp_path) as live:
        for query in ({"limit": "0"}, {"before": "1"}):
            page = await live.client.get("/v1/conversation", params={"chat": "nowhere", **query})
            assert page.json() == {"lines": [], "before": None}
