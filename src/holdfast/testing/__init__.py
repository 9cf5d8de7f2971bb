"""Deterministic simulation and conformance checks, for this project and for authors of adapters."""

from holdfast.testing.armed import Armed
from holdfast.testing.clock import ManualClock, SimClock
from holdfast.testing.crash import Crash, CrashPoint, crashing, die, points
from holdfast.testing.entropy import SeededEntropy
from holdfast.testing.faults import FaultPlan, FaultScope, draw
from holdfast.testing.node import NodeDown, SimNode
from holdfast.testing.report import Violation, describe
from holdfast.testing.shrink import shrink
from holdfast.testing.simloop import Deadlock, SimLoop, StepLimitReached
from holdfast.testing.tasks import SimTasks

__all__ = [
    "Armed",
    "Crash",
    "CrashPoint",
    "Deadlock",
    "FaultPlan",
    "FaultScope",
    "ManualClock",
    "NodeDown",
    "SeededEntropy",
    "SimClock",
    "SimLoop",
    "SimNode",
    "SimTasks",
    "StepLimitReached",
    "Violation",
    "crashing",
    "describe",
    "die",
    "draw",
    "points",
    "shrink",
]
