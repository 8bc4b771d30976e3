"""What each step took and would cost, and which artifacts are worth keeping. Dollars are estimates at the prices
given."""

from __future__ import annotations

from mmlake.costs.ledger import COSTS, stage_costs
from mmlake.costs.plan import PLAN, precompute_plan
from mmlake.costs.prices import Prices

__all__ = ["COSTS", "PLAN", "Prices", "precompute_plan", "stage_costs"]
