"""A reply's Markdown is shown as elements, and hostile words stay words: no script, no image, no other address runs."""

import json

import pytest

from tests.browser.chromium import browser
from tests.browser.test_page import has, say, shot
from tests.support.fakes import ScriptedModel, says
from tests.support.live import serve

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

PLAIN = [
    ("one\ntwo\n\nthree", '<p dir="auto">one\ntwo</p><p dir="auto">three</p>'),
    ("# A *b*", "<h3>A <em>b</em></h3>"),
    ("a **b** _c_ ~~d~~ `e * f`", "a <strong>b</strong> <em>c</em> <del>d</del> <code>e * f</code>"),
    ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
    ("2 * 3 * 4, snake_case_name, \\*no\\*, **open", "2 * 3 * 4, snake_case_name, *no*, **open"),
    ("``a ` b`` and ` c `", "<code>a ` b</code> and <code>c</code>"),
    ("```python\nif a < b:\n\n    *go*\n```", "<code>if a &lt; b:\n\n    *go*</code>"),
    ("```\nnever closed", '<pre tabindex="0"><code>never closed</code></pre>'),
    (
        "- a\n- b\n  1. c\n  2. d\n\nend",
        (
            '<ul><li><p dir="auto">a</p></li><li><p dir="auto">b</p><ol start="1"><li><p dir="auto">c</p></li>'
            '<li><p dir="auto">d</p></li></ol></li></ul><p dir="auto">end</p>'
        ),
    ),
    ("3. c\n\n4. d", '<ol start="3"><li><p dir="auto">c</p></li><li><p dir="auto">d</p></li></ol>'),
    ("> a\n> - b", '<blockquote><p dir="auto">a</p><ul><li><p dir="auto">b</p></li></ul></blockquote>'),
    ("---", "<hr>"),
    ("a | b\n--|--:\n1 \\| 2 | *3*", '<td>1 | 2</td><td class="end"><em>3</em></td>'),
    ("see https://example.org/a_b?c=1.", ">https://example.org/a_b?c=1</a>."),
    ("[x](mailto:a@example.org)", 'href="mailto:a@example.org"'),
    ("![cat](https://example.org/cat.png)", 'rel="noopener noreferrer nofollow" target="_blank">cat</a>'),
]
HOSTILE = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=2>",
    "[x](javascript:window.hit=3) [y](JaVaScRiPt:window.hit=4) [z](data:text/html,<script>window.hit=5</script>)",
    "![x](javascript:window.hit=6)",
    '[x](https://example.org/"onclick="window.hit=7)',
    "```<img src=x onerror=window.hit=8>\n</code></pre><script>window.hit=9</script>\n```",
    "| <script>window.hit=10</script> | b |\n|---|---|\n| <svg onload=window.hit=11> | c |",
]
LONG = [
    "*a ",
    "**a",
    "_a_b",
    "`",
    "``a`",
    "[",
    "[a](",
    "![a](http://",
    "> ",
    "- a\n  ",
    "http://",
    "|",
    "a|b\n",
    "~~",
    " ",
    "#",
]
FOREIGN = """(text) => {
  const box = document.createElement("div"), found = [];
  document.body.append(box);
  box.append(markdown(text));
  for (const one of box.querySelectorAll("*")) {
    if (/script|img|svg|iframe|style|object|form/i.test(one.tagName)) found.push(one.tagName);
    for (const at of one.attributes) if (/^(on|src|style)/.test(at.name)) found.push(at.name);
    if (one.href && !/^(https?|mailto):/.test(one.href)) found.push(one.href);
  }
  return found;
}"""


async def rendered(page, text):
    return await page.run(
        f'(() => {{ const box = document.createElement("div"); box.append(markdown({json.dumps(text)}));'
        " return box.innerHTML; })()"
    )


async def test_markdown_becomes_elements_and_hostile_words_stay_words(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        await page.open(live.url)
        found = [(text, await rendered(page, text)) for text, _ in PLAIN]
        assert [
            (text, html) for (text, html), (_, wanted) in zip(found, PLAIN, strict=True) if wanted not in html
        ] == []
        for text in HOSTILE:
            assert await page.run(f"({FOREIGN})({json.dumps(text)})") == [], text
        assert await page.run("window.hit") is None
        assert [one for one in page.complaints if "/v1/me" not in one] == []  # nobody is logged in


SIZE = 200_000
LIMIT_MS = 15_000  # work that grows with the square of the text takes minutes; what is linear takes a second
TIMED = """(part) => {
  const text = part.repeat(Math.ceil(%d / part.length)), began = performance.now();
  markdown(text);
  return performance.now() - began;
}"""


async def test_the_work_grows_with_the_length_of_a_hostile_text_and_not_with_its_square(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        await page.open(live.url)
        took = {part: await page.run(f"({TIMED % SIZE})({json.dumps(part)})") for part in LONG}
        assert {part: ms for part, ms in took.items() if ms > LIMIT_MS} == {}


ANSWER = """## Your week

Three things **wait for you**, as of `Monday`:

1. Pay the [rent](https://bank.example/rent)
2. Call Ada
   - before noon
   - about *Byron*

| Day | Sum |
|---|--:|
| Monday | 12.50 |
| Tuesday | 7.00 |

```python
def rent(month: int) -> int:
    return 1_250 if month != 12 else 0  # a long line that has to be scrolled to the side on every phone
```

> She said: <script>window.hit=1</script>
"""


async def test_a_reply_is_rendered_with_its_time_and_what_a_person_wrote_is_shown_as_written(tmp_path):
    async with (
        browser(tmp_path / "profile") as page,
        serve(tmp_path / "data", model=ScriptedModel(says(ANSWER))) as live,
    ):
        await page.do("Emulation.setTimezoneOverride", timezoneId="Asia/Kathmandu")
        await page.resize(360, 740)
        await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
        await page.until('document.getElementById("status").textContent === "Connected"')
        await say(page, "what is **on**?")
        await page.until(has("She said: <script>"))
        await page.until(has("answered"))
        for is_again in (False, True):
            shown = 'document.querySelector("#log > li:last-child .rendered")'
            assert await page.run(f'[...{shown}.querySelectorAll("h4, ol, ul, table, pre, blockquote")].length') == 6
            assert await page.run('document.querySelector("#log > li.user > div").textContent') == "what is **on**?"
            times = 'Array.from(document.querySelectorAll("#log time"), (one) => one.title.split(", ").pop())'
            assert await page.run(times) == ["UTC+05:45", "UTC+05:45"]
            assert await page.run('document.getElementById("zone").textContent') == "Times: UTC+05:45"
            assert await page.run("document.documentElement.scrollWidth") == 360
            assert await page.run("window.hit") is None
            if not is_again:
                await shot(page, "chat-phone")
                await page.reload()
                await page.until(has("She said: <script>"))
        await page.resize(1000, 900, dark=True)
        await shot(page, "chat-dark")
