"""The table of all routes."""

from holdfast.api.endpoint import Endpoint
from holdfast.api.openai import completions, models, responses
from holdfast.api.routes import (
    access,
    actions,
    approvals,
    attachments,
    channels,
    finalisations,
    logins,
    messages,
    replies,
    sessions,
    spend,
    webhooks,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *messages.ENDPOINTS,  # first, because they get the most requests
    *completions.ENDPOINTS,
    *responses.ENDPOINTS,
    *models.ENDPOINTS,
    *sessions.ENDPOINTS,
    *approvals.ENDPOINTS,
    *replies.ENDPOINTS,
    *attachments.ENDPOINTS,
    *finalisations.ENDPOINTS,
    *spend.ENDPOINTS,
    *channels.ENDPOINTS,
    *access.ENDPOINTS,
    *actions.ENDPOINTS,
    *logins.ENDPOINTS,
    *webhooks.ENDPOINTS,
)
