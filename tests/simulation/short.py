"""Short histories: the same randomness and faults as `holdfast sim`, with fewer messages."""

from dataclasses import replace

from holdfast.testing.history import plan_of, run_history

FIRST = 10_040
SWEPT = 10_744  # a fault strikes the sweep of a forgetting, which few short histories reach
MEASURED = (SWEPT, *reversed(range(FIRST, FIRST + 199)))  # run by test_coverage, which records the lines they reach
OTHERS = range(FIRST + 200, FIRST + 2_000)
MESSAGES = 9


def short(seed, folder):
    plan = plan_of(seed)
    return run_history(seed, folder=folder, plan=replace(plan, messages=plan.messages[:MESSAGES]))
