"""The HTML report of a version, filled from the lake; its pages and plots are made by `mmlake.report`."""

from __future__ import annotations

from mmlake.version_report.filling import gather, newest_report, report_path, write_version_report

__all__ = ["gather", "newest_report", "report_path", "write_version_report"]
