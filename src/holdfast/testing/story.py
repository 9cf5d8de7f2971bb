"""The events of one history, for debugging: faults, sends, claims, turns, in virtual time."""

from collections.abc import Callable

from holdfast.testing.history import Verdict, plan_of, run_history, scratch


def tell(seed: int, line: Callable[[str], None]) -> Verdict:
    """Run the history of a seed and print its events line by line, then its violations."""
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
