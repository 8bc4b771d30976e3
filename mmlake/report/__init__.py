"""One self-contained HTML file about a lake and a version of it.

Fill `ReportData` (its parts are in `data.py`) and call `write_report`; `thumbnail`, `waveform_peaks` and `project` make
media and vectors small.
"""

from __future__ import annotations

from mmlake.report.checksum import is_as_written
from mmlake.report.data import (
    ClusterCard,
    ClusterMember,
    DuplicateCluster,
    EmbeddingMap,
    Example,
    FlowStep,
    Loner,
    ModalityRows,
    PairExample,
    ReportData,
    ReportSettings,
    RuleCount,
    SourceRow,
    TierCount,
    TrackExample,
)
from mmlake.report.media import evenly, media_type, project, thumbnail, waveform_peaks
from mmlake.report.render import Written, write_report

__all__ = [
    "ClusterCard",
    "ClusterMember",
    "DuplicateCluster",
    "EmbeddingMap",
    "Example",
    "FlowStep",
    "Loner",
    "ModalityRows",
    "PairExample",
    "ReportData",
    "ReportSettings",
    "RuleCount",
    "SourceRow",
    "TierCount",
    "TrackExample",
    "Written",
    "is_as_written",
    "evenly",
    "media_type",
    "project",
    "thumbnail",
    "waveform_peaks",
    "write_report",
]
