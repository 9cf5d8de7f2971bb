"""Every error says what happened, who must act and how; its code is stable, because people script against it."""

import pkgutil
from importlib import import_module

import pytest

import holdfast
from holdfast.kernel import errors
from holdfast.kernel.errors import HoldfastError, Remedy

# Codes are never renamed or reused. A new error adds a line here.
CODES = {
    "export_invalid": Remedy.CORRECT,
    "export_newer": Remedy.CORRECT,
    "import_conflict": Remedy.CORRECT,
    "backup_invalid": Remedy.REPAIR,
    "backup_newer": Remedy.REPAIR,
    "folder_not_empty": Remedy.CORRECT,
    "address_not_found": Remedy.CORRECT,
    "address_taken": Remedy.CORRECT,
    "hermes_database_corrupt": Remedy.REPAIR,
    "hermes_evidence_missing": Remedy.REPAIR,
    "hermes_database_missing": Remedy.CORRECT,
    "hermes_home_read_only": Remedy.REPAIR,
    "hermes_running": Remedy.REPAIR,
    "hermes_schema_unknown": Remedy.CORRECT,
    "identity_conflict": Remedy.CORRECT,
    "pairing_not_found": Remedy.CORRECT,
    "binding_required": Remedy.CORRECT,
    "data_folder_foreign": Remedy.REPAIR,
    "data_folder_unsafe": Remedy.REPAIR,
    "duplicate_key": Remedy.CORRECT,
    "encryption_key_invalid": Remedy.REPAIR,
    "encryption_key_missing": Remedy.REPAIR,
    "encryption_key_wrong": Remedy.REPAIR,
    "encryption_unavailable": Remedy.REPAIR,
    "encryption_unfinished": Remedy.REPAIR,
    "invalid_json": Remedy.CORRECT,
    "login_not_found": Remedy.CORRECT,
    "plain_http_refused": Remedy.REPAIR,
    "provider_url_forbidden": Remedy.REPAIR,
    "robot_refused": Remedy.CORRECT,
    "token_bound": Remedy.CORRECT,
    "unsupported_media_type": Remedy.CORRECT,
    "allowlist_not_immutable": Remedy.REPAIR,
    "approval_changed": Remedy.CORRECT,
    "approval_digest_needed": Remedy.CORRECT,
    "approval_not_found": Remedy.CORRECT,
    "bad_signature": Remedy.CORRECT,
    "channel_failed": Remedy.RETRY,
    "reply_not_found": Remedy.CORRECT,
    "confirmation_required": Remedy.CORRECT,
    "scope_required": Remedy.CORRECT,
    "token_not_found": Remedy.CORRECT,
    "delivery_not_found": Remedy.CORRECT,
    "finalisation_not_found": Remedy.CORRECT,
    "forget_not_found": Remedy.CORRECT,
    "lane_lost": Remedy.RETRY,
    "memory_write_blocked": Remedy.CORRECT,
    "provider_failed": Remedy.RETRY,
    "agent_not_found": Remedy.CORRECT,
    "attachment_not_found": Remedy.CORRECT,
    "claim_lost": Remedy.RETRY,
    "config_invalid": Remedy.REPAIR,
    "empty_message": Remedy.CORRECT,
    "engine_unsafe": Remedy.REPAIR,
    "error": Remedy.REPORT,
    "hermes_home_invalid": Remedy.CORRECT,
    "hermes_config_invalid": Remedy.REPAIR,
    "hermes_not_found": Remedy.REPAIR,
    "hermes_plugin_foreign": Remedy.REPAIR,
    "hermes_provider_set": Remedy.CORRECT,
    "hermes_served": Remedy.REPAIR,
    "hermes_unsupported": Remedy.REPAIR,
    "spool_newer": Remedy.REPAIR,
    "hermes_import_mismatch": Remedy.REPAIR,
    "idempotency_conflict": Remedy.CORRECT,
    "invalid_address": Remedy.CORRECT,
    "invalid_input": Remedy.CORRECT,
    "invalid_name": Remedy.CORRECT,
    "invalid_unicode": Remedy.CORRECT,
    "invariant_broken": Remedy.REPORT,
    "mailbox_full": Remedy.RETRY,
    "message_not_found": Remedy.CORRECT,
    "message_too_large": Remedy.CORRECT,
    "model_failed": Remedy.RETRY,
    "node_lost": Remedy.RETRY,
    "operation_busy": Remedy.RETRY,
    "rate_limited": Remedy.RETRY,
    "refused": Remedy.RETRY,
    "session_live": Remedy.CORRECT,
    "session_moved": Remedy.RETRY,
    "session_not_found": Remedy.CORRECT,
    "store_broken": Remedy.REPAIR,
    "store_corrupt": Remedy.REPAIR,
    "store_full": Remedy.REPAIR,
    "store_newer": Remedy.REPAIR,
    "store_owned": Remedy.REPAIR,
    "store_path_invalid": Remedy.REPAIR,
    "store_read_only": Remedy.REPAIR,
    "store_unavailable": Remedy.RETRY,
    "too_many_hops": Remedy.CORRECT,
    "summary_stale": Remedy.RETRY,
}


def every_error() -> list[type[HoldfastError]]:
    """All of the package, the errors of its parts included; those of tests are left out."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found: list[type[HoldfastError]] = []
    open_ends = [HoldfastError]
    while open_ends:
        kind = open_ends.pop()
        found.append(kind)
        open_ends += kind.__subclasses__()
    return sorted((kind for kind in found if kind.__module__.startswith("holdfast.")), key=lambda kind: kind.__name__)


EVERY = every_error()
PER_ERROR = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)


def test_the_codes_of_the_core_are_those_that_people_know():
    found = {kind.code: kind.remedy for kind in EVERY if kind.__module__ == errors.__name__}
    assert found == CODES


def test_no_two_errors_share_a_code():
    codes = [kind.code for kind in EVERY]
    assert len(codes) == len(set(codes)) == len({kind.__name__ for kind in EVERY})


@PER_ERROR
def test_a_code_is_written_in_lower_case_with_underscores(kind):
    assert kind.code.replace("_", "").isalpha()
    assert kind.code == kind.code.lower()


@PER_ERROR
def test_an_error_has_a_sentence_an_operator_can_read(kind):
    sentence = kind.__doc__ or ""
    assert sentence.endswith(".")
    assert sentence[0].isupper()
    assert "\n" not in sentence
    assert "__doc__" in vars(kind), "inherited from another error"


@PER_ERROR
def test_an_error_says_who_must_act_and_how(kind):
    assert isinstance(kind.remedy, Remedy)
    assert kind.hint.endswith(".")
    assert len(kind.hint) > 10


@PER_ERROR
def test_an_error_carries_what_happened_and_its_context(kind):
    error = kind("it happened", session="ses_1")
    assert str(error) == "it happened"
    assert error.context == {"session": "ses_1"}


def test_only_what_we_must_mend_is_to_be_reported():
    reported = {kind.__name__ for kind in EVERY if kind.remedy is Remedy.REPORT}
    assert {"HoldfastError", "InvariantBroken"} <= reported
    assert all("report" in kind.hint.lower() for kind in EVERY if kind.remedy is Remedy.REPORT)


def test_a_vendor_that_names_no_pause_asks_for_none():
    assert errors.ModelFailed("it failed").retry_after_ms == 0
    assert errors.ModelFailed("it failed", retry_after_ms=7).retry_after_ms == 7
    assert errors.ModelFailed("it failed", retry_after_ms="soon").retry_after_ms == 0
