"""Short histories: the same chance and the same faults as `holdfast sim`, with less said."""

from dataclasses import replace

from holdfast.testing.history import plan_of, run_history

FIRST = 10_040
MEASURED = range(FIRST, FIRST + 200)  # lived through by test_coverage, which looks at the lines they reach
OTHERS = range(MEASURED.stop, FIRST + 2_000)
MESSAGES = 9


def short(seed, folder):
    plan = plan_of(seed)
    return run_history(seed, folder=folder, plan=replace(plan, messages=plan.messages[:MESSAGES]))
