"""What machines cost: assumptions to replace with your own bill."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """USD per unit. The defaults are rounded public list prices (on demand, US regions): right in size, wrong in
    detail for everybody."""

    usd_per_cpu_hour: float = 0.048
    # USD per hour of one busy virtual CPU; AWS m5.xlarge at 0.192 for 4 of them (list price, us-east-1, January 2026)
    usd_per_gpu_hour: float = 0.80
    # USD per hour of one GPU; about what Modal lists for the L4. An assumption: put in the price of the card that you
    # rent
    usd_per_gb_month: float = 0.023
    # USD per 10^9 bytes and month; S3 Standard, first tier, list price
    usd_per_gb_egress: float = 0.09
    # USD per 10^9 bytes that leave the region; AWS to the internet, list price
    egress_fraction: float = 0.0
    # fraction of reads that leave the region; 0: training runs where the lake lies
