"""The table of all routes: the endpoints of these modules, in this order."""

from holdfast.api.endpoint import Endpoint
from holdfast.api.openai import routes as openai
from holdfast.api.routes import (
    acting,
    administration,
    logins,
    messages,
    monitoring,
    repair,
    sessions,
    status,
    webhooks,
)

MODULES = (
    *(messages, openai),  # first, because they get the most requests
    *(sessions, status, monitoring, acting, repair, administration, logins, webhooks),
)
ENDPOINTS = tuple(one for module in MODULES for one in vars(module).values() if isinstance(one, Endpoint))
