"""Every route, in one table: what is not here does not exist."""

from holdfast.channels.http import (
    access_routes,
    action_routes,
    approval_routes,
    attachment_routes,
    channel_routes,
    finish_routes,
    hook_routes,
    login_routes,
    message_routes,
    reply_routes,
    routes,
    spend_routes,
)
from holdfast.channels.http.endpoint import Endpoint
from holdfast.channels.http.openai import completions, models, responses

ENDPOINTS: tuple[Endpoint, ...] = (
    *message_routes.ENDPOINTS,  # first, because most requests are for these
    *completions.ENDPOINTS,
    *responses.ENDPOINTS,
    *models.ENDPOINTS,
    *routes.ENDPOINTS,
    *approval_routes.ENDPOINTS,
    *reply_routes.ENDPOINTS,
    *attachment_routes.ENDPOINTS,
    *finish_routes.ENDPOINTS,
    *spend_routes.ENDPOINTS,
    *channel_routes.ENDPOINTS,
    *access_routes.ENDPOINTS,
    *action_routes.ENDPOINTS,
    *login_routes.ENDPOINTS,
    *hook_routes.ENDPOINTS,
)
