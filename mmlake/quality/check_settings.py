"""Settings of the checks on the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckSettings:
    """How much may be wrong before a check of the graph says so. Nothing is made again for a change here."""

    quarantined: Mapping[str, float] = field(default_factory=dict)
    # modality -> largest share of its units that its rules may keep out of versions; 0.5 where none is named. Above it
    # the check fails: the rules or the source are wrong
    broken: Mapping[str, float] = field(default_factory=dict)
    # rule -> largest share of units that may break it. Above it the check fails; without one, half is a warning
    dropped: float = 0.1
    # share of a modality's samples that a version may have fewer than its parent; more is a warning

    def __post_init__(self) -> None:
        """Refuse shares that are none. Names are checked where modalities and rules are known."""
        shares = {f"quarantined.{name}": share for name, share in self.quarantined.items()}
        shares |= {f"broken.{name}": share for name, share in self.broken.items()} | {"dropped": self.dropped}
        for name, share in shares.items():
            if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
                raise SettingsError(f"checks.{name}={share!r} is no share in [0, 1]; correct the setting")

    def check_names(self, modalities: Mapping[str, object], rules: set[str]) -> None:
        """Raises SettingsError for a bound on a modality or a rule that does not exist."""
        for section, given, known in (("quarantined", self.quarantined, modalities), ("broken", self.broken, rules)):
            if unknown := sorted(given.keys() - set(known)):
                raise SettingsError(
                    f"checks.{section} names {unknown}, which is not known; expected some of {sorted(known)}"
                )
