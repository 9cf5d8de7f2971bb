"""What no measured history reaches, and why.

A key is a verb (`store.add_token`) or a function, class or module of the loops (`loops.toolbox.ToolBox.add`). A verb or
function that is neither reached nor covered by a key fails a test, and so does a key that names nothing.
"""

LEFT_OUT: dict[str, str] = {}
