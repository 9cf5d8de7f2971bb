"""What no measured history reaches, and why.

A key is a verb (`store.add_token`) or a function, class or module of the loops (`loops.toolbox.ToolBox.add`). A verb or
function that is neither reached nor covered by a key fails a test, and so does a key that names nothing.
"""

TOOLS = "the world has tools of its own, so that their effects are counted outside the nodes"
ONLY_A_BUG = "runs only when the loop meets an exception that nothing in it raises"
BESIDE = "commands that work beside a serving process are not simulated; tests/acceptance runs them"
NO_CHANNELS = "histories send messages straight to the gateway and have no channel that takes them in"

LEFT_OUT: dict[str, str] = {
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
    "loops.poster.Poster.give_back": ONLY_A_BUG,
    "loops.providers.Providers.attach": "no simulated provider shows notes",
    "loops.toolbox": TOOLS,
    "loops.visit": BESIDE,
    "loops.worker.Worker.serving": BESIDE,
    # Channels that receive, drafts, identities and operators of chats.
    "store.admitted": NO_CHANNELS,
    "store.ask_pairing": NO_CHANNELS,
    "store.attachment": NO_CHANNELS,
    "store.attachments_bytes": NO_CHANNELS,
    "store.decide_approval": NO_CHANNELS,
    "store.decide_pairing": NO_CHANNELS,
    "store.drop_draft": NO_CHANNELS,
    "store.enclosure_of": NO_CHANNELS,
    "store.enclosures": NO_CHANNELS,
    "store.intend_draft": NO_CHANNELS,
    "store.link": NO_CHANNELS,
    "store.links": NO_CHANNELS,
    "store.move_address": NO_CHANNELS,
    "store.move_chat": NO_CHANNELS,
    "store.note_draft": NO_CHANNELS,
    "store.note_read": NO_CHANNELS,
    "store.pairings": NO_CHANNELS,
    "store.read_up_to": NO_CHANNELS,
    "store.release_draft": NO_CHANNELS,
    "store.reply": NO_CHANNELS,
    "store.resend_reply": NO_CHANNELS,
    "store.stray_drafts": NO_CHANNELS,
    "store.took_in": NO_CHANNELS,
    "store.unlink": NO_CHANNELS,
    "store.unpair": NO_CHANNELS,
    "loops.access_desk": NO_CHANNELS,
    "loops.approval_desk.ApprovalDesk.decide": NO_CHANNELS,
    "loops.drafting": NO_CHANNELS,
    "loops.intake": NO_CHANNELS,
    "loops.liaison": NO_CHANNELS,
    "loops.poster.Poster._edit": NO_CHANNELS,
    "loops.presence.Presence._type": NO_CHANNELS,
    "loops.receiver": NO_CHANNELS,
    "loops.reply_desk": NO_CHANNELS,
    "loops.sketch": NO_CHANNELS,
}
