"""A planner for the tests of the contract: it opens a turn for every plain message."""

from holdfast.inbox.mailbox import Claim, Mail
from holdfast.kernel.ids import SessionId
from holdfast.turns.policy import TurnPolicy
from holdfast.turns.turn import TurnOpening
from holdfast.turns.work_sql import mail_needed, opening_of


class PlainPlanner:
    """Implements `Planner`."""

    def __init__(self, settings: TurnPolicy | None = None) -> None:
        self._policy = settings or TurnPolicy()

    def mail_max(self, _claim: Claim) -> int:
        return mail_needed(self._policy)

    def opening(self, claim: Claim, mail: Mail) -> TurnOpening | None:
        return opening_of(mail, self._policy, lambda: SessionId(f"first session of {claim.mailbox}"))


def unknown(_session: SessionId) -> None:
    """No context is in memory."""
