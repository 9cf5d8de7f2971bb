"""Short histories: the same randomness and faults as `holdfast sim`, with fewer messages."""

from dataclasses import replace

from holdfast.testing.history import plan_of, run_history

FIRST = 10_040
MEASURED = range(FIRST, FIRST + 200)  # run by test_coverage, which records the lines they reach
OTHERS = range(MEASURED.stop, FIRST + 2_000)
MESSAGES = 9


def short(seed, folder):
    plan = plan_of(seed)
    return run_history(seed, folder=folder, plan=replace(plan, messages=plan.messages[:MESSAGES]))
