"""Short histories: the same randomness and faults as `holdfast sim`, with fewer messages."""

from holdfast.testing.history import plan_of, run_history, shortened

FIRST = 10_040
SWEPT = 10_744  # a fault strikes the sweep of a forgetting, which few short histories reach
# Together they reach what all 200 must reach. They come first, since test_coverage traces lines only until then.
REACHING = (
    *(10_169, 10_071, 10_170, 10_207, 10_233, 10_205, 10_178, 10_194, 10_105),
    *(10_236, 10_056, 10_109, 10_097, 10_131, 10_051, 10_229, 10_200, 10_065),
)
MEASURED = tuple(dict.fromkeys((*REACHING, SWEPT, *range(FIRST, FIRST + 199))))  # run by test_coverage
OTHERS = range(FIRST + 200, FIRST + 2_000)
MESSAGES = 9


def short(seed, folder):
    return run_history(seed, folder=folder, plan=shortened(plan_of(seed), MESSAGES))
