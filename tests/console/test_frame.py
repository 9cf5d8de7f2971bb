"""The frame of the console: who may see a page, what its policy allows, what it costs, and that words stay words."""

import asyncio
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.console.assets import TYPES, asset_path
from holdfast.console.navigation import MENU
from holdfast.console.table import PAGES
from holdfast.kernel.ids import TokenId
from tests.support.counting import CountingDatabase
from tests.support.live import serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOSTILE = "<script>window.hit=1</script>\"'&<img src=x onerror=window.hit=2>"
PLAIN_PAGES = [one.path for one in PAGES if "{" not in one.path]
READ_PAGES = [one.path for one in PAGES if "{" not in one.path and one.scope is Scope.READ]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("console") / "data") as running:
        await running.talk("My cat is called Byron.", HOSTILE)
        yield running


async def token(live, number, *scopes, **more):
    made = AccessToken(id=TokenId(f"tok_{number}"), scopes=frozenset(scopes), **more)
    await live.runtime.db.write(add_token(made, hash_token(spell_token(number))))
    return {"Authorization": f"Bearer {spell_token(number)}"}


@pytest.mark.parametrize("path", [*PLAIN_PAGES, "/console/nowhere", "/console/trace/msg_1"])
async def test_without_a_login_every_page_is_the_login_under_its_own_address(live, path):
    response = await live.client.get(path, headers={"Authorization": ""})
    assert (response.status_code, response.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert 'id="login"' in response.text
    assert "Byron" not in response.text
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_a_token_that_reads_sees_every_page_and_one_that_sends_sees_none(live):
    reader, sender = await token(live, 1, Scope.READ), await token(live, 2, Scope.SEND, binding=Binding(relay=True))
    for path in READ_PAGES:
        assert (await live.client.get(path, headers=reader)).status_code in {200, 303, 308}, path
        refused = await live.client.get(path, headers=sender)
        assert (refused.status_code, "scope_required" in refused.text, "Byron" in refused.text) == (403, True, False)


@pytest.mark.parametrize("more", [{"agents": frozenset({"main"})}, {"binding": Binding(sender="ada")}])
async def test_a_token_for_some_agents_or_chats_sees_no_page(live, more):
    limited = await token(live, 3 + ("binding" in more), Scope.READ, **more)
    for path in PLAIN_PAGES:
        refused = await live.client.get(path, headers=limited)
        assert (refused.status_code, "Byron" in refused.text) == (403, False), path


async def test_a_page_of_another_origin_gets_nothing_with_a_cookie(live):
    cookie = (await live.post("/v1/login", {"code": live.app.logins.new_code()})).headers["set-cookie"].split(";")[0]
    mine = {"Authorization": "", "Cookie": cookie}
    assert (await live.client.get("/console/messages", headers=mine)).status_code == 200
    for foreign in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = await live.client.get("/console/messages", headers=mine | foreign)
        assert (refused.status_code, "origin_not_allowed" in refused.text, "Byron" in refused.text) == (
            403,
            True,
            False,
        )


class Markup(HTMLParser):
    """The tags of a page, and what the policy would refuse."""

    def __init__(self, text):
        super().__init__()
        self.refused, self.ids, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.refused += [(tag, name) for name in given if name == "style" or name.startswith("on")]
        self.refused += [(tag, "inline")] * ((tag == "script" and "src" not in given) or tag == "style")
        self.ids += [given["id"]] if "id" in given else []

    def handle_data(self, data):
        self.words += data


@pytest.mark.parametrize("path", [*PLAIN_PAGES, "/console/nowhere"])
async def test_a_page_has_no_script_or_style_of_its_own_and_words_stay_words(live, path):
    response = await live.client.get(path)
    if response.is_redirect:
        return
    policy = response.headers["content-security-policy"]
    assert ("default-src 'none'" in policy, "unsafe" in policy) == (True, False)
    assert response.headers["cache-control"] == "no-store"
    page = Markup(response.text)
    assert page.refused == []
    assert len(page.ids) == len(set(page.ids))


async def test_hostile_words_are_shown_as_they_were_written(live):
    page = Markup((await live.get("/console/messages")).text)
    assert HOSTILE in page.words


@pytest.mark.parametrize("path", PLAIN_PAGES)
async def test_a_part_of_a_page_has_its_content_without_the_frame(live, path):
    whole = await live.client.get(path)
    part = await live.client.get(path, headers={"X-Holdfast-Part": "live"})
    assert part.status_code == whole.status_code
    if whole.status_code == 200:
        assert 'id="main"' in part.text
        assert ("<dialog" in part.text, "console.js" in part.text) == (False, False)


async def test_every_page_of_the_menu_exists_and_has_its_own_key(live):
    entries = [entry for group in MENU for entry in group.entries]
    for entry in entries:
        page = await live.get(entry.path)
        assert page.status_code == 200, entry.path
        is_page = entry.path.startswith("/console")  # the chat page has no menu
        assert not is_page or re.search(rf'<a href="{entry.path}"[^>]* aria-current="page"', page.text), entry.path
    assert len({entry.key for entry in entries}) == len(entries)


@pytest.mark.parametrize("name", TYPES)
async def test_files_need_no_login_and_are_kept_by_the_browser(live, name):
    response = await live.client.get(asset_path(name), headers={"Authorization": ""})
    assert (response.status_code, response.headers["content-type"]) == (200, TYPES[name])
    assert "immutable" in response.headers["cache-control"]
    other = await live.client.get("/console/static/other.css")
    assert other.status_code == 404


async def test_a_page_asks_the_store_equally_often_however_much_it_shows(tmp_path):
    def count(runtime):
        runtime.db = CountingDatabase(runtime.db)
        return runtime

    async with serve(tmp_path, wrap=count) as live:
        found = []
        for more in (1, 8):
            for number in range(more):
                await live.talk(f"Note {number}", chat=f"chat {more} {number}")
            found.append({path: await statements(live, path) for path in PLAIN_PAGES})
        assert found[0] == found[1]
        assert max(found[1].values()) <= 40, found[1]


async def statements(live, path):
    counting = live.runtime.db
    before = counting.counted.only(*counting.counted.transactions).statements
    await live.get(path)
    made = counting.counted.statements - before  # loops of the runtime claim meanwhile, and are not the page's
    return sum(n for verb, n in made.items() if verb.startswith(("read_", "list_", "find_", "sum_", "count_")))


async def test_templates_are_loaded_with_the_first_page_and_not_before():
    code = "import sys, holdfast.api.app; print('jinja2' in sys.modules)"
    found = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert found.stdout.strip() == "False"
