"""The table of all pages: the endpoints of these modules. The API's document does not list them."""

from holdfast.api.endpoint import Endpoint
from holdfast.console.pages import messages, overview, session, sessions, static

MODULES = (overview, messages, sessions, session, static)
PAGES = tuple(one for module in MODULES for one in vars(module).values() if isinstance(one, Endpoint))
