"""The tree of src/holdfast: which folders are subjects, and which files only decide or store.

tests/test_tidy.py checks what the tables here say; tools/mutation plants bugs in the files that are pure.
"""

from pathlib import Path

from tools import source

SRC = Path(__file__).parents[1] / "src" / "holdfast"
SUBJECTS = {"inbox", "turns", "sessions", "memory", "outbox", "audit", "monitor", "repair", "transfer"}

# The doers of the subjects and of the kernel. Every other file there decides or stores: it has no effect.
ACTING = {
    *("audit/actor.py",),
    *("inbox/access_control.py", "inbox/channel.py", "inbox/channels.py", "inbox/gateway.py", "inbox/router.py"),
    *("kernel/files.py", "kernel/hardening.py", "kernel/log.py", "kernel/loop.py"),
    *("kernel/machine.py", "kernel/notifier.py", "kernel/spans.py", "kernel/time_zones.py"),
    *("memory/delivery_call.py", "memory/dispatcher.py", "memory/files/*.py"),
    *("memory/forgetter.py", "memory/notes_service.py", "memory/provider.py", "memory/recaller.py"),
    *("memory/reindex.py", "monitor/sampler.py"),
    *("outbox/drafter.py", "outbox/reply_sender.py", "outbox/typing_indicator.py"),
    *("repair/repairs.py",),
    *("sessions/compressor.py", "sessions/finisher.py"),
    *("turns/agents.py", "turns/approvals.py", "turns/context_cache.py", "turns/context_window.py"),
    *("turns/mailbox_processor.py", "turns/model.py", "turns/model_call.py", "turns/pauses.py"),
    *("turns/runner.py", "turns/tool.py", "turns/tool_calls.py", "turns/turn_run.py"),
    *("turns/worker.py",),
}
ALSO_PURE = {
    *("hermes/importing/compaction.py", "hermes/importing/routing.py", "hermes/importing/rows.py"),
    *("hermes/importing/settings.py", "hermes/importing/turns.py"),
    *("api/auth/access_token.py", "api/auth/login.py", "api/limits/server_limits.py"),
    *("hermes/doctor/summary_text.py",),
    *("hermes/filing.py", "hermes/kept_messages.py", "hermes/routing_index.py", "hermes/undone.py"),
    *("providers/*/naming.py", "providers/local/ranking.py", "providers/local/synonyms.py"),
    *("providers/local/tokenizer.py",),
    *("store/encryption/key.py", "store/script.py", "store/postgres/dialect.py"),
}


def is_pure(path: Path) -> bool:
    """Whether a file only decides or stores: values in, values or statements out."""
    name = path.relative_to(SRC).as_posix()
    if name.endswith("_sql.py") or source.like(name, dict.fromkeys(ALSO_PURE, "")):
        return True
    folder = name.partition("/")[0]
    return folder in SUBJECTS | {"kernel"} and not source.like(name, dict.fromkeys(ACTING, ""))
