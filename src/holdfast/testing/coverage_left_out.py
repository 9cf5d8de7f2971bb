"""What no measured history reaches, and why.

A key is a verb (`store.add_token`) or a function, class or module of the loops (`tools.toolbox.ToolBox.add`). A verb or
function that is neither reached nor covered by a key fails a test, and so does a key that names nothing.
"""

ABSTRACT = "abstract methods"
TOOLS = "the world has tools of its own, so that their effects are counted outside the nodes"
ONLY_A_BUG = "runs only when the loop meets an exception that nothing in it raises"
BESIDE = "commands that work beside a serving process are not simulated; tests/cli runs them"
NO_PAIRING = "simulated platforms admit no new people; tests/inbox pairs them"
AT_THE_STORE = "principals of histories have no platform in their names, so the operator links them at the store"
STRAY = "a draft is deleted only when its reply ended without words while it stood"
PROBE = "a provider's recall must fail, and be asked for again half a minute later; few short histories last that long"
READ_BESIDE = "the checkers read the trail by a connection of their own"
IMPORTED = "a history of Hermes is imported by a command beside the loops; tests/hermes imports into both engines"
LOOKED_UP = "the simulated writer knows its turns by number; tests/hermes looks them up by their words"
RELOADED = "the configuration of a history stays as it is; tests/runtime reloads one"
NO_MOVES = "no operator of a history moves notes between scopes or providers"

LEFT_OUT: dict[str, str] = {
    "memory.recaller.Recaller._probing": PROBE,
    "store.read_snapshot": "an operator reads a snapshot only where one was made, which not every 200 histories have",
    "outbox.drafter.Drafter.cut_off": "it cuts off a draft that is written at the moment when a process stops",
    "store.claim_mailbox": "workers claim several mailboxes at a time; the contract suite claims one",
    "store.retry_finalisation": "extractions hardly ever fail often enough to be given up; the contract suite does it",
    "turns.agents.Agents.first": "every message names its agent",
    "memory.delivery_call.ProviderDelivery.give_back": ONLY_A_BUG,
    "inbox.channels.Channels.add": "channels are there from the start",
    "sessions.compressor.Compressor._tell_failure": ONLY_A_BUG,
    "memory.notes_service.NotesService.migrate": "no simulated provider takes memory files over",
    "kernel.loop.Loop": ABSTRACT,
    "kernel.loop.ClaimLoop.look": ABSTRACT,
    "kernel.loop.ClaimLoop.room": ABSTRACT,
    "kernel.loop.ClaimLoop.claim": ABSTRACT,
    "kernel.loop.ClaimLoop.serve": ABSTRACT,
    "kernel.loop.ClaimLoop.give_back": ABSTRACT,
    "kernel.loop.ClaimLoop.groups": "every key of a history names a group of a loop that has some",
    "kernel.loop.KeyedLock": "it guards equal requests of OpenAI's clients, which are not simulated",
    "kernel.loop.ClaimLoop.wait_ms": "every loop knows how long it may rest",
    "kernel.notifier.Feed.has_more": "no client of a history reads a reply while it is generated; tests/turns does",
    "memory.dispatcher.Dispatcher.give_back": ONLY_A_BUG,
    "outbox.reply_sender.ReplySender.give_back": ONLY_A_BUG,
    "sessions.finisher.Finisher.give_back": ONLY_A_BUG,
    **dict.fromkeys(
        [f"memory.notes_service.NotesService.{name}" for name in ("for_review", "revoke", "_clear", "_memories")],
        "no operator of a history reviews or revokes notes; tests/memory does",
    ),
    **dict.fromkeys(
        ("store.export_attachment", "store.export_person", "store.export_stream", "store.list_hashes"),
        "few of the histories that are exported have attachments, links and notes; tests/transfer exports all of them",
    ),
    "store.import_rows": "exports are imported by a command where nothing serves; tests/transfer imports rich stores",
    "store.repair_rows": "no history contradicts itself; tests/repair plants faults in both engines",
    "store.settle_restored": "a backup is restored before anything serves; tests/store/test_backup.py restores some",
    "store.damage": "no page of a simulated store is damaged; tests/security/test_damage.py damages real ones",
    "outbox.reply_sender.AccountSender.give_back": ONLY_A_BUG,
    "memory.provider.Provider": ABSTRACT,
    "memory.provider.Indexed": ABSTRACT,
    "memory.provider.Inspectable": ABSTRACT,
    "memory.provider.Providers.renew": RELOADED,
    "turns.agents.Agents.take_over": RELOADED,
    "memory.provider.Providers.attach": "no simulated provider shows notes",
    "tools.toolbox": TOOLS,
    "runtime.supervisor.TemporaryLease": BESIDE,
    # Channels, identities and operators of chats.
    "store.ask_pairing": NO_PAIRING,
    "store.decide_pairing": NO_PAIRING,
    "store.drop_draft": STRAY,
    "store.was_accepted": "the simulated platform sends no edits of what was said before",
    "store.unpair": NO_PAIRING,
    "inbox.access_control.AccessControl.link": AT_THE_STORE,
    "inbox.access_control.AccessControl.pair": NO_PAIRING,
    "inbox.access_control.AccessControl.unlink": AT_THE_STORE,
    "inbox.access_control.AccessControl.unpair": NO_PAIRING,
    "inbox.router.InboundRouter._give_up": "most errors of an intake end the connection",
    "inbox.router.InboundRouter._offer_pairing": NO_PAIRING,
    "inbox.router.InboundRouter.disconnected": "a simulated connection that breaks raises",
    "inbox.router.FaultCounter.count": ONLY_A_BUG,
    "store.load_secret": "the world reads the secret of the store before it wraps the database",
    "turns.agents.ChainedTools.is_idempotent": "no agent's turn dies while a tool runs",
    "channels.agent._unlisted": "the tool refuses first, and lists do not change within a history",
    "channels.agent.AgentChannel.run": "the channel between agents receives nothing by itself and is not run",
    "outbox.typing_indicator": "no simulated platform shows that somebody is typing",
    "inbox.channels.ChannelRegistry": "connections and webhooks are asked about by the server, which is not simulated",
    "outbox.drafter.DraftWriter.retract": STRAY,
    "store.import_turns": IMPORTED,
    "store.end_import": IMPORTED,
    "store.finish_import": IMPORTED,
    "store.list_stored_turns": LOOKED_UP,
    # The audit trail.
    "store.list_actions": READ_BESIDE,
    "store.read_last_action": READ_BESIDE,
    "store.note_settings": BESIDE,
    "store.list_candidates": "operators of a history name what they repair; tests/repair lists what matches a filter",
    "store.record_action": "logins and rebuilds by an operator are not simulated; the contract suite records them",
    "store.refuse_action": "refusals come from surfaces, which are not simulated; the contract suite refuses",
    # Notes and folders.
    "memory.notes_service.EditReader._refresh": "no simulated provider keeps notes in files that people edit",
    "memory.notes_service.all_subjects": "no operator of a history reviews or revokes notes; tests/memory does",
    "store.list_all_subjects": "no simulated provider keeps notes in files that people edit",
    "memory.notes_service.NotesService.memory": NO_MOVES,
    "memory.notes_service.NotesService.move": NO_MOVES,
    "inbox.gateway._text": "no simulated message names a working folder",
}
