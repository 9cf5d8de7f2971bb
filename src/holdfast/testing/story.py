"""The story of one history, for whoever has to understand it: faults, sends, claims, turns, in virtual time."""

from collections.abc import Callable

from holdfast.testing.history import Verdict, plan_of, run_history, scratch


def tell(seed: int, line: Callable[[str], None]) -> Verdict:
    """Live through the history of a seed and tell it, line by line; then what was found."""
    plan = plan_of(seed)
    line(f"the history of seed {seed}: {len(plan.messages)} messages, {len(plan.faults)} faults planned")
    for fault in plan.faults:
        line(f"  {fault}")
    with scratch() as folder:
        verdict = run_history(seed, folder=folder, told=line)
    line(f"{verdict.steps} steps, {verdict.virtual_s:.1f} virtual seconds, digest {verdict.digest}")
    for violation in verdict.violations:
        line(f"VIOLATED {violation}")
    if not verdict.violations:
        line("every invariant holds")
    return verdict
