"""What no measured history reaches, and why.

A key is a verb (`store.add_token`) or a function, class or module of the loops (`loops.toolbox.ToolBox.add`). A verb or
function that is neither reached nor covered by a key fails a test, and so does a key that names nothing.
"""

TOOLS = "the world has tools of its own, so that their effects are counted outside the nodes"
ONLY_A_BUG = "runs only when the loop meets an exception that nothing in it raises"
BESIDE = "commands that work beside a serving process are not simulated; tests/acceptance runs them"
NO_PAIRING = "strangers are kept out of every simulated room; the contract suite and tests/integration pair them"
AT_THE_STORE = "principals of histories have no platform in their names, so the operator links them at the store"
STRAY = "a draft is deleted only when its reply ended without words while it stood"
PROBE = "a provider's recall must fail, and be asked for again half a minute later; few short histories last that long"
READ_BESIDE = "the checkers read the trail by a connection of their own"
NO_MOVES = "no operator of a history moves notes between scopes or providers"

LEFT_OUT: dict[str, str] = {
    "loops.recall_breaker.RecallBreaker.end_probe": PROBE,
    "loops.recaller.Recaller._probing": PROBE,
    "store.claim_mailbox": "workers claim several mailboxes at a time; the contract suite claims one",
    "store.retry_finalisation": "extractions hardly ever fail often enough to be given up; the contract suite does it",
    "loops.acting._not_run": "a turn stops between two tool calls of one answer only when /stop comes in that instant",
    "loops.agents.Agents.first": "every message names its agent",
    "loops.carrier.Carrier.give_back": ONLY_A_BUG,
    "loops.channels.Channels.add": "channels are there from the start",
    "loops.compressor.Compressor._tell_failure": ONLY_A_BUG,
    "loops.finish_desk.FinishDesk.retry": "an extraction hardly ever fails often enough to be given up",
    "loops.joined_tools": TOOLS,
    "loops.keeper.Keeper.migrate": "no simulated provider takes memory files over",
    "loops.loop.Loop": "abstract methods",
    "loops.note_review": "no operator of a history reviews or revokes notes; tests/integration/memory does",
    "loops.page_check": "no page of a simulated store is damaged; tests/security/test_damage.py damages real ones",
    "loops.poster.Poster.give_back": ONLY_A_BUG,
    "loops.providers.Providers.attach": "no simulated provider shows notes",
    "loops.toolbox": TOOLS,
    "loops.visit": BESIDE,
    "loops.worker.Worker.serving": BESIDE,
    # Channels, identities and operators of chats.
    "store.ask_pairing": NO_PAIRING,
    "store.decide_pairing": NO_PAIRING,
    "store.drop_draft": STRAY,
    "store.took_in": "the simulated platform sends no edits of what was said before",
    "store.unpair": NO_PAIRING,
    "loops.access_desk.Desk.link": AT_THE_STORE,
    "loops.access_desk.Desk.pair": NO_PAIRING,
    "loops.access_desk.Desk.unlink": AT_THE_STORE,
    "loops.access_desk.Desk.unpair": NO_PAIRING,
    "loops.intake.Reception._give_up": "most errors of an intake end the connection, and the message is fetched again",
    "loops.intake.Reception._offer_pairing": NO_PAIRING,
    "loops.intake.Reception._refused": "the mailboxes of rooms are hardly ever full",
    "loops.intake.Reception.disconnected": "a simulated connection that breaks raises",
    "loops.intake.Tries.count": ONLY_A_BUG,
    "loops.chained_tools.ChainedTools.is_idempotent": "no agent's turn dies while a tool runs",
    "loops.liaison._unlisted": "the tool refuses first, and lists do not change within a history",
    "loops.liaison.AgentChannel.run": "the channel between agents receives nothing by itself, and nobody runs it",
    "loops.presence.Presence._type": "no simulated platform shows that somebody is typing",
    "loops.receiver.Exchange": "connections and webhooks are asked about by the server, which is not simulated",
    "loops.sketch.Pen.retract": STRAY,
    # The audit trail.
    "store.actions": READ_BESIDE,
    "store.last_action": READ_BESIDE,
    "store.note_settings": BESIDE,
    "store.record_action": "logins and rebuilds by an operator are not simulated; the contract suite records them",
    "store.refuse_action": "refusals come from surfaces, which are not simulated; the contract suite refuses",
    "loops.action_desk": "the desk of a surface that is not simulated",
    # Notes and folders.
    "loops.edits.EditReader._subjects": "no simulated provider keeps notes in files that people edit",
    "loops.keeper.Keeper.memory": NO_MOVES,
    "loops.keeper.Keeper.move": NO_MOVES,
    "loops.whereabouts._text": "nobody in a history says which folder they work in",
}
