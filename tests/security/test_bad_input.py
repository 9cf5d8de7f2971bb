"""Bad input to a running gateway that no control names: a clear error with a code, and nothing changed.

Others stand with their subjects: a note that imitates a frame (test_controls.py, control 17), a data folder of another
user (test_data_folder.py), a wrong key (tests/store/test_encryption.py).
"""

import apsw
import pytest

from tests.security.browsers import Browser
from tests.security.gateway import command, new_token, outcome, post, refused_command, said, session_of
from tests.support.processes import Up

pytestmark = pytest.mark.asyncio


async def test_an_unbound_token_sends_nothing_to_a_bound_chat(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    try:
        async with up.client() as client:
            ada = await new_token("--scope", "send", "--sender", "ada", "--data", data)
            await said(client, "ada", "My canary is Byron.", headers=ada)
            session = await session_of(client, "ada")
            assert await refused_command("token", "new", "--scope", "send", "--data", data) == "binding_required"
            unbound = await new_token("--scope", "read", "--scope", "operate", "--data", data)
            for text in ("hello", "/delete", "/new"):
                refused = await post(client, "ada", text, headers=unbound)
                assert outcome(refused) == (403, "scope_required")
                assert "send" in refused.json()["error"]["message"]
            assert await session_of(client, "ada") == session
            entries = (await client.get(f"/v1/sessions/{session}/entries")).json()["entries"]
            assert len(entries) == 2
        _, listed = await command("token", "list", "--data", data)
        assert len(listed["tokens"]) == 2, "what was refused made no token"
    finally:
        await up.stop()


async def test_an_expired_cookie_reads_and_changes_nothing(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    browser = Browser(up.url)
    await browser.login()
    assert (await browser.get()).status_code == 200
    port = up.url.rpartition(":")[2]
    await up.stop()
    db = apsw.Connection(str(data / "holdfast.db"))
    db.execute("update login set ends_at = 1")
    db.close()
    up = await Up.start(data, "--port", port)
    try:
        assert up.url == browser.url
        assert outcome(await browser.get()) == (401, "login_expired")
        late = await browser.post("/v1/messages", {"chat": "late", "id": "1", "text": "hello"})
        assert outcome(late) == (401, "login_expired")
        async with up.client() as client:
            assert (await client.get("/v1/sessions")).json() == {"sessions": []}
    finally:
        await up.stop()
