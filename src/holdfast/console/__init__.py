"""The console: pages for operators under `/console`, made on the server and kept current by one small script.

To add a page:

1. A handler in `pages/<name>.py`, declared by `page` (page.py), its module listed in `table.py`. It reads with
   `asked.read(verb(...))`, a constant number of statements, and returns `PageView(template, title=..., values...)`.
2. A template in `templates/<name>.html` that extends `layout` and fills the block `main`. `macros.html` has the pieces
   (pill, stamp, headline, needs, blank); filters of `rendering.py` format times, durations and numbers.
3. A line in `navigation.py`, with its key after `g`.
4. A test in `tests/console`, which checks the statements, the scope and that words are escaped, and one in
   `tests/browser` for what only a browser shows.

What the script does is requested by attributes, so that a page needs no script of its own: `data-key` on rows keeps a
row in place when the page changes, `data-row` makes it a stop of the keys j and k, `data-dialog` on a link opens a
dialog with the page behind it, and `data-act` on a button of a dialog sends a request to the API.

Rule 1: a page shows only what `asked.read` returned; templates escape every value. No page has a style attribute or a
        script of its own, since the policy of the pages allows neither.
Rule 2: a page needs the scope `read` for all agents and chats. Acting goes through the routes of the API, with their
        scopes, their CSRF check and their row in the audit trail.
Rule 3: a page says when it was true. Times are instants; the browser writes them in its own zone.
"""
